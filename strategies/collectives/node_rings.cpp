#include "strategies/collectives/node_rings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/error.hpp"

namespace trainyard {

LinkGraph nvlink_graph(const NodeType& node) {
  if (node.nvlink_mesh.empty())
    throw UserError(fmt::format("node {} has no point-to-point links to make rings of: its interconnect is {}",
                                node.name, node.interconnect));
  LinkGraph graph{node.gpus, {}};
  for (const NvlinkBundle& bundle : node.nvlink_mesh) graph.bundles.push_back({bundle.a, bundle.b, bundle.links});
  return graph;
}

bool has_full_mesh(const NodeType& node) {
  std::set<std::pair<int, int>> linked;
  for (const NvlinkBundle& bundle : node.nvlink_mesh) linked.insert(std::minmax(bundle.a, bundle.b));
  return node.gpus > 1 && linked.size() == static_cast<std::size_t>(node.gpus) * (node.gpus - 1) / 2;
}

std::vector<WeightedRing> node_rings(const NodeType& node) {
  const RingDecomposition found = decompose_rings(nvlink_graph(node));
  if (found.rings.empty()) throw UserError(fmt::format("node {}: {}", node.name, found.none));
  std::vector<WeightedRing> rings;
  for (const Ring& ring : found.rings) rings.push_back({RingOrder(ring.order), ring.weight});
  return rings;
}

}  // namespace trainyard
