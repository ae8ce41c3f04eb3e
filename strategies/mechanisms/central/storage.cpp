#include <fmt/format.h>

#include "strategies/mechanisms/central/central_mechanism.hpp"

namespace trainyard {
namespace {

Actor cpu_of_node(const ClusterMachine& machine, int node) {
  for (const DeviceId id : machine.graph().all(DeviceKind::cpu, node)) return machine.actor(id);
  fail(machine.spec().place,
       fmt::format("plan.data_parallel.mechanism: node {} has no CPU that could hold the parameters", node));
}

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
