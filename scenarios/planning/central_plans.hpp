#pragma once
#include "scenarios/reading/scenario.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// The plan of a scenario whose gradients meet in one place, on that machine (which has the scenario's cluster, or for a
/// what-if another one) and under that stack; unused (`CentralPlan::used`) where they are all-reduced, or go to
/// parameter servers (see placed_servers). The scenario must outlive it. Throws UserError for a node without a CPU that
/// is to hold them.
CentralPlan central_plan(const Scenario&, const ClusterMachine&, const SoftwareStack&);

/// The actor of a node's first CPU. Throws UserError at `where` if there is none.
Actor cpu_of_node(const ClusterMachine&, int node, const Place& where);

}  // namespace trainyard
