#pragma once
#include <span>

#include "topologies/analysis/fabric_findings.hpp"
#include "topologies/fabric.hpp"
#include "topologies/fabrics/fabric_view.hpp"

namespace trainyard {

/// A device of the fabric in a tree; children come after their parents.
struct FabricVertex {
  DeviceId device = 0;
  int parent = -1;
  int distance = 0;    ///< links from the nearest end
  LinkId wire = -1;    ///< from the parent; ^1: to it
  double up = 0;       ///< bytes/s to the parent, and back
  int directions = 1;  ///< that share this rate: 2 of a half-duplex wire
  int hcas = 0;        ///< ends in its subtree
  double hose = 0;     ///< bytes/s that these can send
};
struct FabricTree {
  std::vector<FabricVertex> vertices;
  std::vector<int> at;    ///< of each device among the vertices; −1: not reached from the root
  std::string no_tree;    ///< why it is none
  bool connected = true;  ///< all ends
  int hcas() const { return vertices.front().hcas; }
  double hose() const { return vertices.front().hose; }
};

/// Rooted at the switch that is farthest from the ends: the top of a folded Clos.
FabricTree fabric_tree(const FabricView&);

std::vector<LinkId> tree_path(const FabricTree&, const HcaPair&);

/// Everything about a fabric that is a tree.
void check_tree(FabricCheck&, const FabricView&, const FabricTree&, std::span<const FabricLevel>);

/// Of a message alone on these wires, and on the media that they share: bytes/s.
double rate_alone(const FabricView&, std::span<const LinkId> wires);

}  // namespace trainyard
