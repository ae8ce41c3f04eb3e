#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

/// `levels: [{down: 32, oversubscription: 2}, …]` from the hosts up, and `rails`.
void read_folded_clos(ClusterSpec& spec, Fields& fields) {
  const Node& levels = fields.required_child("levels");
  if (levels.kind != Node::Kind::list || levels.items.empty() || levels.items.size() > 4)
    fail(levels.place,
         fields.what() + ": levels: expected a list of one to four levels, such as [{down: 32, oversubscription: 2}]");
  for (const Node& item : levels.items) {
    Fields level(item, fields.what() + ": level");
    FabricLevel l;
    l.down = static_cast<int>(std::min<std::int64_t>(level.integer("down", 1), 1 << 20));
    l.oversubscription = level.number("oversubscription", 1e-3, 1e6, 1.0);
    level.finish();
    spec.levels.push_back(l);
  }
  spec.rails = fields.boolean("rails", false);
}

/// The HCAs in the order in which leaves take them: node by node, or (rails) all of index 0, then all of index 1, …
std::vector<DeviceId> hcas_in_order(const DeviceGraph& graph, bool rails) {
  std::vector<DeviceId> hcas = graph.all(DeviceKind::hca);
  const auto devices = graph.devices();
  if (rails)
    std::stable_sort(hcas.begin(), hcas.end(), [&devices](DeviceId a, DeviceId b) {
      return devices[static_cast<std::size_t>(a)].index < devices[static_cast<std::size_t>(b)].index;
    });
  return hcas;
}

/// A folded Clos (Clos 1953; Leiserson 1985: fat tree) with ideal spraying: every message spreads evenly over all
/// uplinks that lead its way, so the uplinks of a switch, or of a group of equal ones, carry the same load each, and
/// one wire of their summed rate stands for them exactly. `levels[0]` are the leaves with their HCAs, `levels[1]` the
/// pods with their leaves, and so on; one stage joins all groups of the last level.
void build_folded_clos(DeviceGraph& graph, const ClusterSpec& spec) {
  static constexpr const char* kGroups[] = {"leaf", "pod", "zone", "hall"};
  const Picoseconds half_switch{spec.switch_latency.count / 2};
  std::vector<DeviceId> below = hcas_in_order(graph, spec.rails);
  Wire wire{"HCA", spec.node.hca_rate, spec.node.hca_latency + half_switch};
  for (std::size_t l = 0; l < spec.levels.size() && below.size() > 1; ++l) {
    const FabricLevel& level = spec.levels[l];
    std::vector<DeviceId> groups;
    for (std::size_t first = 0; first < below.size(); first += static_cast<std::size_t>(level.down)) {
      const auto index = static_cast<int>(groups.size());
      groups.push_back(graph.add({fmt::format("{}{}", kGroups[l], index), DeviceKind::network_switch, -1, index}));
      for (std::size_t i = first; i < std::min(below.size(), first + static_cast<std::size_t>(level.down)); ++i)
        graph.connect(below[i], groups.back(), wire);
    }
    // What a full group could send up, whether or not its last ports are used.
    wire = {"uplink", wire.rate * level.down / level.oversubscription, spec.switch_latency};
    below = std::move(groups);
  }
  if (below.size() == 1) return;
  const DeviceId top = graph.add({spec.levels.size() == 1 ? "spines" : "core", DeviceKind::network_switch, -1, 0});
  for (const DeviceId group : below) graph.connect(group, top, wire);
}

const RegisterBuilder<FabricBuilder> registered_folded_clos{
    fabric_builders(), "folded-clos", {build_folded_clos, read_folded_clos}};

}  // namespace
}  // namespace trainyard
