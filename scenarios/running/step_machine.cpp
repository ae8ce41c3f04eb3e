#include "scenarios/running/step_machine.hpp"

namespace trainyard {

StepMachine::StepMachine(const Scenario& s, const Upgrade& upgrade)
    : cluster(upgraded(s.cluster, with_drives(s.input.supply, upgrade)), upgraded(s.software, upgrade)) {
  if (s.parallel.mechanism == Mechanism::parameter_server) {
    servers = std::make_unique<PlacedServers>(placed_servers(s, cluster, upgraded(s.software, upgrade)));
    placed_ = std::make_unique<PlacedMachine>(cluster, servers->actors);
    top_ = placed_.get();
  }
  if (s.input.used()) {
    input = std::make_unique<InputRun>(s.input, s.parallel.mesh, s.micro_batch_size, cluster, upgrade);
    top_ = &input->machine();
  }
  if (!s.slow.stragglers.empty()) {
    stragglers_ = std::make_unique<StragglerMachine>(*top_, s.slow.stragglers, s.plan.ranks);
    top_ = stragglers_.get();
  }
  cluster.scale_compute(s.compute_scale);
}

std::vector<Actor> StepMachine::servers_on(Actor worker) const {
  std::vector<Actor> on;
  if (!servers) return on;
  const Actor first = servers->plan.workers();
  for (Actor server = first; server < first + servers->plan.servers; ++server)
    if (placed_->place(server) == placed_->place(worker)) on.push_back(server);
  return on;
}

}  // namespace trainyard
