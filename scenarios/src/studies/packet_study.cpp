#include "scenarios/src/studies/packet_study.hpp"

#include <fmt/format.h>

#include "scenarios/src/studies/failures/failure_study.hpp"
#include "topologies/machines/tcp_network.hpp"

namespace trainyard {
namespace {

/// Before anything is simulated.
void require_packets(const Scenario& s) {
  tcp_network(ClusterMachine(s.cluster, s.software));
  const Fidelity fidelity = s.plan.all_reduce.settings.fidelity;
  if (s.plan.mechanism->all_reduces() && s.ranks() > 1 && fidelity != Fidelity::messages)
    throw UserError(
        fmt::format("--transport packets: of single messages; gradients are all-reduced as {} here. Take "
                    "data_parallel: {{all_reduce: ring}} (trainyard list collectives)",
                    name_of(fidelity)));
  if (s.prescribed_step.given())
    throw UserError("--transport packets: plan.step_time says what a step takes, and nothing is sent");
}

}  // namespace

Result simulate_by_packets(const Scenario& s, const Plan& plan, SimulateOptions options) {
  require_packets(s);
  SimulateOptions by_flows;
  by_flows.critical_path = false;
  const Result flows = simulate(s, plan, by_flows);
  packet_cost(flows).announce();
  options.transport = TransportKind::packets;
  Result result = by_ns3([&] { return simulate_training(s, plan, options); });
  result.flow_step_time = flows.step_time;
  return result;
}

}  // namespace trainyard
