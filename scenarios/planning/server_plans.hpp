#pragma once
#include "scenarios/reading/scenario.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/placed_machine.hpp"

namespace trainyard {

/// Parameter servers of a scenario: their plan, and where workers and servers are.
struct PlacedServers {
  ServerPlan plan;
  std::vector<PlacedMachine::Placed> actors;
};

/// For a scenario of mechanism parameter_server, on that machine (which has the scenario's cluster, or for a what-if
/// another one) and under that stack. The scenario must outlive it. Throws UserError for more servers than keys or than
/// CPUs and GPUs of their nodes.
PlacedServers placed_servers(const Scenario&, const ClusterMachine&, const SoftwareStack&);

/// The buckets of a scenario's gradients that are keys, where they are not what the plan's `bucket` makes.
std::vector<GradientBucket> server_keys(const Scenario&);

}  // namespace trainyard
