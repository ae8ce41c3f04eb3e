#pragma once
#include "strategies/collectives/collective.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// The switches that take part in a collective of some actors, in the order of SwitchTree's numbers.
struct SwitchActors {
  SwitchTree tree;
  std::vector<Actor> actors;
};

/// nvswitch: the one of the node that all of them are on. network: a tree of the switches that join their HCAs, as flat
/// as there is one (with InfiniBand SHARP the aggregation manager chooses it). Empty where there is none: an Ethernet,
/// say, or chips with links of their own.
SwitchActors switch_actors(const ClusterMachine&, SwitchKind, const std::vector<Actor>& members);

}  // namespace trainyard
