#pragma once
#include "strategies/collectives/collective.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// The switches that take part in a collective, in the order of SwitchTree's numbers.
struct SwitchActors {
  SwitchTree tree;
  std::vector<Actor> actors;
};

/// Finds the switches for a collective of `members`. nvswitch: the NVSwitch of the node, if all members are on one
/// node. network: the flattest tree of the switches that join their HCAs (with InfiniBand SHARP, the aggregation
/// manager chooses it). Empty if there are no such switches, for example on Ethernet or on chips with links of their
/// own.
SwitchActors switch_actors(const ClusterMachine&, SwitchKind, const std::vector<Actor>& members);

}  // namespace trainyard
