#include "scenarios/src/studies/packet_study.hpp"

#include "scenarios/src/studies/failures/failure_study.hpp"

namespace trainyard {
Result simulate_by_packets(const Scenario& s, const Plan& plan, SimulateOptions options) {
  require_packets(s);
  SimulateOptions by_flows;
  by_flows.critical_path = false;
  by_flows.transport = TransportKind::flow;
  const Result flows = simulate(s, plan, by_flows);
  packet_cost(flows).announce();
  options.transport = TransportKind::packets;
  Result result = simulate_training(s, plan, options);
  result.flow_step_time = flows.step_time;
  return result;
}

}  // namespace trainyard
