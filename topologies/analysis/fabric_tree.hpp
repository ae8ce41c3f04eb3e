#pragma once
#include <span>

#include "topologies/analysis/fabric_findings.hpp"
#include "topologies/fabric.hpp"
#include "topologies/fabrics/fabric_view.hpp"

namespace trainyard {

/// A device of the fabric in a tree. Children come after their parents.
struct FabricVertex {
  DeviceId device = 0;
  int parent = -1;
  int distance = 0;    ///< number of links to the nearest end
  LinkId wire = -1;    ///< link from the parent; `wire ^ 1` is the link to it
  double up = 0;       ///< bytes/s to the parent, and back
  int directions = 1;  ///< directions that share this rate: 2 for a half-duplex wire
  int hcas = 0;        ///< number of ends in its subtree
  double hose = 0;     ///< bytes/s that these can send
};
struct FabricTree {
  std::vector<FabricVertex> vertices;
  std::vector<int> vertex_of;  ///< indexed by device: its vertex; −1: not reachable from the root
  std::string no_tree;         ///< why it is not a tree; "": it is one
  bool connected = true;       ///< all ends are in the tree
  int hcas() const { return vertices.front().hcas; }
  double hose() const { return vertices.front().hose; }
};

/// Builds the tree with the switch that is farthest from the ends as its root: the top of a folded Clos.
FabricTree fabric_tree(const FabricView&);

std::vector<LinkId> tree_path(const FabricTree&, const HcaPair&);

/// Fills in all findings about a fabric that is a tree.
void check_tree(FabricCheck&, const FabricView&, const FabricTree&, std::span<const FabricLevel>);

/// Rate in bytes/s of a message that is alone on these wires and on the media that they share.
double rate_alone(const FabricView&, std::span<const LinkId> wires);

}  // namespace trainyard
