#include "strategies/mechanisms/central/central_mechanism.hpp"

namespace trainyard {
namespace {

class CentralStorage : public CentralMechanism {
 public:
  CentralStorage() : CentralMechanism("central-storage") {}

 protected:
  MakeProgram program() const override { return storage_program; }
  void place_center(CentralPlan& plan, const MechanismSite& site) const override {
    const double parameters = parameters_of(site.plan);
    plan.center = cpu_of_node(site.machine, 0);
    plan.memory = model_states({parameters, parameters, parameters}, site.states.precision, site.states.optimizer);
  }
};

const RegisterMechanism register_central_storage{
    {"central-storage",
     "parameters lie in the memory of a node's CPU, which adds gradients and updates",
     {},
     nullptr,
     [](Fields&, const ClusterSpec&) -> std::unique_ptr<Mechanism> { return std::make_unique<CentralStorage>(); }}};

}  // namespace
}  // namespace trainyard
