#include "topologies/placement.hpp"

#include <algorithm>
#include <map>

#include "sim/hashing.hpp"
#include "sim/index.hpp"

namespace trainyard {
namespace {

using FreeNodes = std::map<DeviceId, std::vector<int>>;  // free nodes of each leaf switch, in ascending order

/// Returns the leaf switch with the most free nodes.
FreeNodes::iterator emptiest_leaf(FreeNodes& free_nodes) {
  return std::ranges::max_element(free_nodes,
                                  [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
}

std::vector<int> packed_nodes(std::size_t count, FreeNodes free_nodes) {
  std::vector<int> chosen;
  while (chosen.size() < count) {
    const std::size_t missing = count - chosen.size();
    auto leaf = free_nodes.end();  // the fullest leaf that has room for the rest
    for (auto it = free_nodes.begin(); it != free_nodes.end(); ++it)
      if (it->second.size() >= missing && (leaf == free_nodes.end() || it->second.size() < leaf->second.size()))
        leaf = it;
    if (leaf == free_nodes.end()) leaf = emptiest_leaf(free_nodes);
    const std::size_t taken = std::min(missing, leaf->second.size());
    chosen.insert(chosen.end(), leaf->second.begin(), leaf->second.begin() + static_cast<std::ptrdiff_t>(taken));
    free_nodes.erase(leaf);
  }
  return chosen;
}

std::vector<int> spread_nodes(std::size_t count, FreeNodes free_nodes) {
  std::vector<int> chosen;
  while (chosen.size() < count) {
    std::vector<int>& leaf = emptiest_leaf(free_nodes)->second;
    chosen.push_back(leaf.front());
    leaf.erase(leaf.begin());
  }
  return chosen;
}

std::vector<int> random_nodes(std::size_t count, const FreeNodes& free_nodes, std::uint64_t seed) {
  std::vector<int> nodes;
  for (const auto& [leaf, of_leaf] : free_nodes) nodes.insert(nodes.end(), of_leaf.begin(), of_leaf.end());
  std::ranges::sort(nodes);
  shuffle(nodes, seed, nodes.size());
  nodes.resize(count);
  return nodes;
}

}  // namespace

const std::vector<std::string>& placement_names() {
  static const std::vector<std::string> names{"packed", "spread", "fragmented"};
  return names;
}

std::vector<DeviceId> leaf_of_nodes(const DeviceGraph& graph, int nodes) {
  std::vector<DeviceId> leaves(position(nodes), -1);
  for (const DeviceId hca : graph.devices_of_kind(DeviceKind::hca)) {
    DeviceId& leaf = leaves.at(position(graph.devices()[position(hca)].node));
    for (const LinkId link : graph.links_from(hca)) {
      const DeviceId end = graph.ends(link).to;
      if (leaf < 0 && graph.devices()[position(end)].kind == DeviceKind::network_switch) leaf = end;
    }
  }
  return leaves;
}

std::vector<int> choose_nodes(int count, Placement placement, const std::vector<DeviceId>& leaves,
                              std::vector<bool>& taken, std::uint64_t seed) {
  FreeNodes free_nodes;
  for (std::size_t node = 0; node < leaves.size(); ++node)
    if (!taken[node]) free_nodes[leaves[node]].push_back(static_cast<int>(node));
  std::vector<int> nodes = placement == Placement::packed   ? packed_nodes(position(count), std::move(free_nodes))
                           : placement == Placement::spread ? spread_nodes(position(count), std::move(free_nodes))
                                                            : random_nodes(position(count), free_nodes, seed);
  std::ranges::sort(nodes);
  for (const int node : nodes) taken[position(node)] = true;
  return nodes;
}

}  // namespace trainyard
