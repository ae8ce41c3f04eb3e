#include "strategies/collectives/node_rings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/error.hpp"
#include "sim/index.hpp"

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

namespace {

std::vector<WeightedRing> weighted(const RingDecomposition& found) {
  std::vector<WeightedRing> rings;
  for (const Ring& ring : found.rings) rings.push_back({RingOrder(ring.order), ring.weight});
  return rings;
}

}  // namespace

std::vector<WeightedRing> node_rings(const NodeType& node) {
  const RingDecomposition found = decompose_rings(nvlink_graph(node));
  if (found.rings.empty()) throw UserError(fmt::format("node {}: {}", node.name, found.none));
  return weighted(found);
}

NodeRings::NodeRings(const NodeType& node) : links_(nvlink_graph(node)) {}

std::vector<WeightedRing> NodeRings::through(const std::vector<int>& gpus) const {
  const int most = std::min(links_.devices, kMostRingDevices);
  if (gpus.size() < 2 || std::ssize(gpus) > most) return {};
  std::vector<int> place(position(links_.devices), -1), key;  // indexed by the GPU's number on its node
  for (const int gpu : gpus) {
    key.push_back(gpu % links_.devices);
    place[position(key.back())] = static_cast<int>(key.size()) - 1;
  }
  return found_.find(key, [&] {
    LinkGraph among{static_cast<int>(key.size()), {}};
    for (const LinkBundle& bundle : links_.bundles)
      if (const int a = place[position(bundle.a)], b = place[position(bundle.b)]; a >= 0 && b >= 0)
        among.bundles.push_back({a, b, bundle.links});
    return weighted(decompose_rings(among));
  });
}

}  // namespace trainyard
