#pragma once
#include <string>

#include "scenarios/scenario.hpp"

namespace trainyard {

/// What the verbs of `topo` look at: the cluster of a scenario, or one node of the catalog.
struct TopoMachine {
  std::string name;
  ClusterSpec cluster;
  Seconds network_step;  ///< what the scenario's software adds to a message between nodes
};

/// `what` is a scenario file, a node's file, or the name of a node. Throws UserError for unknown names, and lanes that are not there.
TopoMachine read_topo_machine(const std::string& what, const std::string& verb, const Overrides&);

}  // namespace trainyard
