#include "topologies/analysis/network_design.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "models/reading/document.hpp"
#include "sim/units.hpp"
#include "topologies/analysis/clos_design.hpp"
#include "topologies/fabrics/rails.hpp"

namespace trainyard {
namespace {

/// Switches above the leaves, and the cables between all switches. Pods: leaves of each pod; 0: there are two levels.
struct UpperLevels {
  std::int64_t switches = 0, links = 0, leaves_of_pod = 0;
};

/// Returns the fewest switches over which `uplinks` of each of `leaves` leaves spread evenly with `ports` ports each; 0:
/// there is no such number.
std::int64_t fewest_spines(std::int64_t leaves, std::int64_t uplinks, std::int64_t ports) {
  for (std::int64_t spines = 1; spines <= uplinks; ++spines)
    if (leaves * ceiling(uplinks, spines) <= ports) return spines;
  return 0;
}

/// Returns the upper levels of a Clos. No switches: three levels are not enough.
UpperLevels upper_levels(std::int64_t leaves, std::int64_t uplinks, std::int64_t ports) {
  if (leaves == 1) return {};
  if (leaves <= ports) return {fewest_spines(leaves, uplinks, ports), leaves * uplinks, 0};
  UpperLevels best;
  for (std::int64_t most = ports / 2; most >= 1; --most) {
    const std::int64_t pods = ceiling(leaves, most), of_pod = ceiling(leaves, pods);
    if (pods > ports) break;
    const std::int64_t aggregation = fewest_spines(of_pod, uplinks, ports / 2);
    if (aggregation == 0) continue;
    const std::int64_t cores = ceiling(of_pod * uplinks, ports / pods), switches = pods * aggregation + cores;
    if (best.switches == 0 || switches < best.switches)
      best = {switches, leaves * uplinks + pods * of_pod * uplinks, of_pod};
  }
  return best;
}

[[noreturn]] void refuse_size(const NetworkKind& kind, const NetworkRequest& request) {
  throw UserError(fmt::format("{}: three levels of switches of {} ports do not join {} nodes of {} adapters", kind.name,
                              request.ports, request.nodes, request.adapters));
}

/// Sets the switches and cables of `count` equal networks of `leaves` leaves each.
UpperLevels add_parts(NetworkDesign& design, std::int64_t count, std::int64_t leaves, std::int64_t uplinks,
                      const NetworkKind& kind, const NetworkRequest& request) {
  const UpperLevels upper = upper_levels(leaves, uplinks, request.ports);
  if (leaves > 1 && upper.switches == 0) refuse_size(kind, request);
  design.leaves = count * leaves;
  design.switches = count * (leaves + upper.switches);
  design.links = count * upper.links;
  design.uplinks = leaves > 1 ? uplinks : 0;
  design.pods = upper.leaves_of_pod > 0 ? count * ceiling(leaves, upper.leaves_of_pod) : 0;
  return upper;
}

NetworkDesign rail_design(const NetworkKind& kind, const NetworkRequest& request) {
  if (request.adapters < 2)
    throw UserError(fmt::format("{}: nodes of two adapters or more expected, not of {}", kind.name, request.adapters));
  NetworkDesign design;
  const std::int64_t nodes = request.nodes, rails = request.adapters;
  design.hosts = nodes * rails;
  design.rails = rails;
  const std::int64_t half = request.ports / 2;
  // A rail without a spine may fill its only switch. The others need as many ports up as down.
  const std::int64_t leaves = !kind.joined && nodes <= request.ports ? 1 : ceiling(nodes, half);
  const std::int64_t hosts = ceiling(nodes, leaves);
  design.hosts_of_leaf = hosts;
  if (kind.joined)
    add_parts(design, 1, rails * leaves, hosts, kind, request);
  else
    add_parts(design, rails, leaves, hosts, kind, request);
  design.base = kind.joined ? "rail-optimized" : "rail-only";
  // With three levels, only the latency of two more switches on some ways is left out.
  design.levels = {{static_cast<int>(hosts), 1}};
  return design;
}

NetworkDesign leaf_design(const NetworkKind& kind, const NetworkRequest& request) {
  NetworkDesign design;
  design.hosts = static_cast<std::int64_t>(request.nodes) * request.adapters;
  if (design.hosts <= request.ports) {
    design.leaves = design.switches = 1;
    design.hosts_of_leaf = design.hosts;
    design.base = "nonblocking";
    return design;
  }
  const std::int64_t most = most_hosts_of_leaf(request.ports, kind.oversubscription);
  if (most == 0) refuse_size(kind, request);
  // Whole nodes on a leaf, if one fits, spread evenly over the leaves.
  const std::int64_t unit = most >= request.adapters ? request.adapters : 1;
  const std::int64_t units = design.hosts / unit, leaves = ceiling(units, most / unit);
  const std::int64_t hosts = ceiling(units, leaves) * unit;
  design.hosts_of_leaf = hosts;
  const std::int64_t uplinks = divide_links(static_cast<double>(hosts), kind.oversubscription);
  const UpperLevels upper = add_parts(design, 1, leaves, uplinks, kind, request);
  design.base = "leaf-spine";
  design.levels = {{static_cast<int>(hosts), static_cast<double>(hosts) / static_cast<double>(uplinks)}};
  if (upper.leaves_of_pod > 0) design.levels.push_back({static_cast<int>(upper.leaves_of_pod), 1});
  return design;
}

}  // namespace

std::vector<std::string> network_kinds() { return {"nonblocking", "2:1", "4:1", "rail-optimized", "rail-only"}; }

NetworkKind read_network_kind(const std::string& name, const std::string& flag) {
  if (name == "nonblocking") return {name};
  if (name == "rail-optimized") return {name, 1, true, true};
  if (name == "rail-only") return {name, 1, true, false};
  constexpr double most = 64;
  if (name.ends_with(":1")) {
    double ratio = 0;
    try {
      ratio = parse_number(name.substr(0, name.size() - 2));
    } catch (const UserError&) {
    }
    if (ratio >= 1 && ratio <= most) return {name, ratio};
  }
  std::vector<std::string> names = network_kinds();
  names.emplace_back("3:1");
  throw UserError(fmt::format("{}: unknown network \"{}\"{}", flag, name, hint(name, names)));
}

std::string NetworkDesign::fabric(const std::vector<std::string>& more) const {
  std::string text = "{base: " + base;
  for (const std::string& key : more) text += ", " + key;
  std::vector<std::string> words;
  for (const FabricLevel& level : levels)
    words.push_back(level.oversubscription == 1
                        ? fmt::format("{{down: {}}}", level.down)
                        : fmt::format("{{down: {}, oversubscription: {}}}", level.down, exact(level.oversubscription)));
  if (!words.empty()) text += fmt::format(", levels: [{}]", fmt::join(words, ", "));
  return text + "}";
}

NetworkDesign design_network(const NetworkKind& kind, const NetworkRequest& request) {
  return kind.rails ? rail_design(kind, request) : leaf_design(kind, request);
}

std::optional<NetworkDesign> network_of_fabric(const ClusterSpec& cluster, int ports) {
  NetworkRequest request{cluster.nodes, cluster.node.hcas, ports};
  if (!cluster.others.empty()) {
    request = {0, 1, ports};
    for (const auto& [type, nodes] : cluster.counted_types()) request.nodes += nodes * type->hcas;
  }
  const Fabric& fabric = *cluster.fabric;
  if (fabric.type() == "nonblocking") return design_network({"nonblocking"}, request);
  const std::span<const FabricLevel> levels = fabric.levels();
  if (fabric.type() != "folded-clos" || levels.empty()) return std::nullopt;
  for (const FabricLevel& level : levels.subspan(1))
    if (level.oversubscription != 1) return std::nullopt;
  const FabricLevel& leaf = levels.front();
  if (is_by_rails(cluster)) {
    if (leaf.oversubscription != 1 || !cluster.others.empty()) return std::nullopt;
    const bool is_joined = fabric.joins_rails();
    return design_network({is_joined ? "rail-optimized" : "rail-only", 1, true, is_joined}, request);
  }
  NetworkDesign design;
  design.hosts = static_cast<std::int64_t>(request.nodes) * request.adapters;
  design.hosts_of_leaf = std::min<std::int64_t>(leaf.down, design.hosts);
  design.base = "leaf-spine";
  const std::int64_t leaves = ceiling(design.hosts, design.hosts_of_leaf);
  const std::int64_t uplinks = divide_links(static_cast<double>(design.hosts_of_leaf), leaf.oversubscription);
  if (design.hosts_of_leaf + (leaves > 1 ? uplinks : 0) > ports) return std::nullopt;
  add_parts(design, 1, leaves, uplinks, {cluster.fabric_name.empty() ? "leaf-spine" : cluster.fabric_name}, request);
  design.levels.assign(levels.begin(), levels.end());
  return design;
}

CabledNetwork cabled_network(const NetworkDesign& design) {
  CabledNetwork network;
  network.hosts = design.hosts;
  network.leaves = design.leaves;
  network.links = design.links;
  network.levels = design.links == 0 ? 1 : design.pods == 0 ? 2 : 3;
  network.uplinks = design.uplinks;
  network.pods = std::max<std::int64_t>(1, design.pods);
  const std::int64_t of_leaf = design.hosts_of_leaf, rails = std::max<std::int64_t>(1, design.rails),
                     of_rail = design.leaves / rails;
  network.leaf_of_host = [of_leaf, rails, of_rail](std::int64_t host) {
    return rails == 1 ? host / of_leaf : host % rails * of_rail + host / rails / of_leaf;
  };
  return network;
}

}  // namespace trainyard
