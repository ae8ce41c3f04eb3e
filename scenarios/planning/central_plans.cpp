#include "scenarios/planning/central_plans.hpp"

#include <fmt/format.h>

#include "scenarios/planning/held_memory.hpp"

namespace trainyard {

Actor cpu_of_node(const ClusterMachine& machine, int node, const Place& where) {
  for (const DeviceId id : machine.graph().all(DeviceKind::cpu))
    if (machine.graph().devices()[static_cast<std::size_t>(id)].node == node) return machine.actor(id);
  fail(where, fmt::format("plan.data_parallel.mechanism: node {} has no CPU that could hold the parameters", node));
}

CentralPlan central_plan(const Scenario& s, const ClusterMachine& machine, const SoftwareStack& stack) {
  if (s.parallel.mechanism != Mechanism::master && s.parallel.mechanism != Mechanism::central_storage) return {};
  CentralPlan plan = central_plan(s.parallel.mechanism, s.network, s.plan);
  plan.loss_on_master = s.parallel.loss_on_master;
  const double parameters = s.network.parameters();
  SoftwareStack held = stack;
  held.gradient_bucket_copy = false;
  plan.step.stages.front().memory =
      static_memory(HeldElements{parameters, parameters, 0}, s.precision, s.optimizer, held);
  if (plan.has_server()) {
    plan.center = cpu_of_node(machine, 0, s.parallel.place);
    plan.memory = model_states({parameters, parameters, parameters}, s.precision, s.optimizer);
  } else {
    plan.memory = static_memory(parameters, s.precision, s.optimizer, held);
  }
  return plan;
}

}  // namespace trainyard
