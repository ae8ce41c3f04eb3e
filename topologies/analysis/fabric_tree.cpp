#include "topologies/analysis/fabric_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

namespace trainyard {
namespace {

/// Number of links to the nearest end, by device; −1: no end can be reached.
std::vector<int> distances_from_ends(const FabricView& view) {
  std::vector<int> distance(view.graph.devices().size(), -1);
  std::deque<DeviceId> next(view.ends.begin(), view.ends.end());
  for (const DeviceId h : view.ends) distance[h] = 0;
  for (; !next.empty(); next.pop_front())
    for (const LinkId link : view.links(next.front())) {
      const DeviceId to = view.graph.ends(link).to;
      int& distance_of_to = distance[to];
      if (distance_of_to >= 0) continue;
      distance_of_to = distance[next.front()] + 1;
      next.push_back(to);
    }
  return distance;
}

/// Adds everything below vertex `v`. Records the first reason why the fabric is not a tree.
void grow(const FabricView& view, FabricTree& tree, std::size_t v, const std::vector<int>& distance) {
  const FabricVertex vertex = tree.vertices[v];
  for (const LinkId link : view.links(vertex.device)) {
    if (vertex.wire >= 0 && link == (vertex.wire ^ 1)) continue;  // back to the parent
    const DeviceId to = view.graph.ends(link).to;
    int& place = tree.vertex_of[to];
    if (place >= 0) {
      if (tree.no_tree.empty())
        tree.no_tree = fmt::format("the links between the {}s are no tree: several paths join {} and {}", view.end_word,
                                   view.name(vertex.device), view.name(to));
      continue;
    }
    if (view.is_end(vertex.device) && tree.no_tree.empty())
      tree.no_tree = fmt::format("{} has several links to switches", view.name(vertex.device));
    place = static_cast<int>(tree.vertices.size());
    tree.vertices.push_back(
        {to, static_cast<int>(v), distance[to], link, view.capacity(link), view.half_duplex(link) ? 2 : 1});
  }
}

void sum_up(const FabricView& view, FabricTree& tree) {
  for (std::size_t v = tree.vertices.size(); v-- > 0;) {
    FabricVertex& vertex = tree.vertices[v];
    if (view.is_end(vertex.device)) {
      vertex.hcas = 1;
      vertex.hose = vertex.up;
    }
    if (vertex.parent < 0) continue;
    FabricVertex& parent = tree.vertices[vertex.parent];
    parent.hcas += vertex.hcas;
    parent.hose += vertex.hose;
  }
}

}  // namespace

FabricTree fabric_tree(const FabricView& view) {
  FabricTree tree;
  const std::vector<int> distance = distances_from_ends(view);
  DeviceId root = -1;
  for (const DeviceId s : view.graph.devices_of_kind(DeviceKind::network_switch))
    if (root < 0 || distance[s] > distance[root]) root = s;
  if (root < 0) {
    tree.no_tree = fmt::format("there is no switch between the {}s", view.end_word);
    return tree;
  }
  tree.vertex_of.assign(view.graph.devices().size(), -1);
  tree.vertices.push_back({root, -1, distance[root]});
  tree.vertex_of[root] = 0;
  for (std::size_t v = 0; v < tree.vertices.size(); ++v) grow(view, tree, v, distance);
  for (const DeviceId h : view.ends)
    if (tree.vertex_of[h] < 0 && tree.connected) {
      tree.connected = false;
      tree.no_tree = fmt::format("by switches {} cannot reach all other {}s", view.name(h), view.end_word);
    }
  sum_up(view, tree);
  return tree;
}

std::vector<LinkId> tree_path(const FabricTree& tree, const HcaPair& pair) {
  const auto to_root = [&tree](DeviceId end) {
    std::vector<LinkId> wires;  // downwards
    for (int v = tree.vertex_of.at(static_cast<std::size_t>(end)); tree.vertices[v].parent >= 0;
         v = tree.vertices[v].parent)
      wires.push_back(tree.vertices[v].wire);
    return wires;
  };
  std::vector<LinkId> up = to_root(pair.from), down = to_root(pair.to);
  while (!up.empty() && !down.empty() && up.back() == down.back()) {
    up.pop_back();
    down.pop_back();
  }
  for (LinkId& wire : up) wire ^= 1;
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

double rate_alone(const FabricView& view, std::span<const LinkId> wires) {
  double rate = std::numeric_limits<double>::infinity();
  for (const LinkId link : view.graph.with_media(wires)) rate = std::min(rate, view.capacity(link));
  return rate;
}

}  // namespace trainyard
