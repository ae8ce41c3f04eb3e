#include "strategies/mechanisms/central/central_mechanism.hpp"

namespace trainyard {
namespace {

class MasterGpu : public CentralMechanism {
 public:
  explicit MasterGpu(bool loss_on_master) : CentralMechanism("master"), loss_on_master_(loss_on_master) {}

 protected:
  MakeProgram program() const override { return master_program; }
  void place_center(CentralPlan& plan, const MechanismSite& site) const override {
    plan.loss_on_master = loss_on_master_;
    plan.memory = worker_memory(site.plan, site.states, parameters_of(site.plan));
  }

 private:
  bool loss_on_master_;
};

const RegisterMechanism register_master{
    {"master",
     "one process: the first GPU of a node hands out parameters and takes gradients in",
     {{"loss", "where the losses are computed"}},
     nullptr,
     [](Fields& fields, const ClusterSpec&) -> std::unique_ptr<Mechanism> {
       return std::make_unique<MasterGpu>(fields.choice("loss", {"master", "replicas"}, "master") == "master");
     }}};

}  // namespace
}  // namespace trainyard
