#include "topologies/analysis/network_design.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <tuple>

#include "models/reading/document.hpp"
#include "models/reading/pattern.hpp"
#include "sim/stable_sort.hpp"
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

/// Hosts and uplinks of each leaf, and the number of leaves.
struct LeafShape {
  std::int64_t hosts = 0, uplinks = 0, leaves = 0;
  double ratio() const { return static_cast<double>(hosts) / static_cast<double>(uplinks); }
};

/// Returns true if a leaf is left over when `units` are spread evenly over so many leaves.
bool has_empty_leaf(std::int64_t leaves, std::int64_t units) {
  return leaves > units || ceiling(units, ceiling(units, leaves)) != leaves;
}

/// Returns the leaves of a network with stated numbers of leaves and spines; `units`: nodes, each with `hosts` adapters on
/// one leaf, of each of `rails` equal groups of leaves. No value: they cannot be joined, or fewer spines would do.
std::optional<LeafShape> stated_leaves(const NetworkKind& kind, std::int64_t units, std::int64_t hosts,
                                       std::int64_t rails, std::int64_t ports) {
  if (kind.leaves < 2 || kind.leaves > ports || kind.leaves % rails != 0) return std::nullopt;
  if (has_empty_leaf(kind.leaves / rails, units)) return std::nullopt;
  LeafShape shape{ceiling(units, kind.leaves / rails) * hosts, 0, kind.leaves};
  shape.uplinks = std::min({shape.hosts, ports - shape.hosts, kind.spines * (ports / kind.leaves)});
  if (shape.uplinks < 1 || fewest_spines(shape.leaves, shape.uplinks, ports) != kind.spines) return std::nullopt;
  return shape;
}

/// Nodes, or their adapters if a leaf has no room for a whole node, as a network of stated leaves spreads them.
struct LeafUnits {
  std::int64_t units = 0, hosts = 1, rails = 1;
};
LeafUnits units_of(const NetworkRequest& request, bool rails) {
  if (rails) return {request.nodes, 1, request.adapters};
  if (request.adapters < request.ports) return {request.nodes, request.adapters, 1};
  return {static_cast<std::int64_t>(request.nodes) * request.adapters, 1, 1};
}

/// Returns the same, or throws UserError.
LeafShape required_leaves(const NetworkKind& kind, const NetworkRequest& request) {
  const LeafUnits all = units_of(request, kind.rails);
  if (const auto shape = stated_leaves(kind, all.units, all.hosts, all.rails, request.ports)) return *shape;
  for (NetworkKind fewer = kind; --fewer.spines > 0;)
    if (stated_leaves(fewer, all.units, all.hosts, all.rails, request.ports))
      throw UserError(
          fmt::format("{}: {} spines are more than are needed; nearest: {}", kind.name, kind.spines, fewer.spines));
  if (kind.leaves % all.rails == 0 && has_empty_leaf(kind.leaves / all.rails, all.units))
    throw UserError(
        fmt::format("{}: with so many leaves, one has no adapter of the {} nodes", kind.name, request.nodes));
  throw UserError(fmt::format("{}: so many leaves and spines of {} ports do not join {} nodes of {} adapters{}",
                              kind.name, request.ports, request.nodes, request.adapters,
                              kind.rails ? " on rails" : ""));
}

NetworkDesign rail_design(const NetworkKind& kind, const NetworkRequest& request) {
  if (request.adapters < 2)
    throw UserError(fmt::format("{}: nodes of two adapters or more expected, not of {}", kind.name, request.adapters));
  NetworkDesign design;
  const std::int64_t nodes = request.nodes, rails = request.adapters;
  design.hosts = nodes * rails;
  design.rails = rails;
  LeafShape leaf;
  if (kind.spines > 0) {
    leaf = required_leaves(kind, request);
    leaf.leaves /= rails;
  } else {
    const std::int64_t most = most_hosts_of_leaf(request.ports, kind.oversubscription);
    if (most == 0) refuse_size(kind, request);
    // A rail without a spine may fill its only switch.
    leaf.leaves = !kind.joined && nodes <= request.ports ? 1 : ceiling(nodes, most);
    leaf.hosts = ceiling(nodes, leaf.leaves);
    leaf.uplinks = divide_links(static_cast<double>(leaf.hosts), kind.oversubscription);
  }
  design.hosts_of_leaf = leaf.hosts;
  if (kind.joined)
    add_parts(design, 1, rails * leaf.leaves, leaf.uplinks, kind, request);
  else
    add_parts(design, rails, leaf.leaves, leaf.uplinks, kind, request);
  design.base = kind.joined ? "rail-optimized" : "rail-only";
  // With three levels, only the latency of two more switches on some ways is left out.
  design.levels = {{static_cast<int>(leaf.hosts), leaf.ratio()}};
  return design;
}

NetworkDesign leaf_design(const NetworkKind& kind, const NetworkRequest& request) {
  NetworkDesign design;
  design.hosts = static_cast<std::int64_t>(request.nodes) * request.adapters;
  if (design.hosts <= request.ports && kind.spines == 0) {
    design.leaves = design.switches = 1;
    design.hosts_of_leaf = design.hosts;
    design.base = "nonblocking";
    return design;
  }
  LeafShape leaf;
  if (kind.spines > 0) {
    leaf = required_leaves(kind, request);
  } else {
    const std::int64_t most = most_hosts_of_leaf(request.ports, kind.oversubscription);
    if (most == 0) refuse_size(kind, request);
    // Whole nodes on a leaf, if one fits, spread evenly over the leaves.
    const std::int64_t unit = most >= request.adapters ? request.adapters : 1, units = design.hosts / unit;
    leaf.leaves = ceiling(units, most / unit);
    leaf.hosts = ceiling(units, leaf.leaves) * unit;
    leaf.uplinks = divide_links(static_cast<double>(leaf.hosts), kind.oversubscription);
  }
  design.hosts_of_leaf = leaf.hosts;
  const UpperLevels upper = add_parts(design, 1, leaf.leaves, leaf.uplinks, kind, request);
  design.base = "leaf-spine";
  design.levels = {{static_cast<int>(leaf.hosts), leaf.ratio()}};
  if (upper.leaves_of_pod > 0) design.levels.push_back({static_cast<int>(upper.leaves_of_pod), 1});
  return design;
}

}  // namespace

std::vector<std::string> network_kinds() { return {"nonblocking", "2:1", "4:1", "rail-optimized", "rail-only"}; }

NetworkKind read_network_kind(const std::string& name, const std::string& flag) {
  if (name == "nonblocking") return {name};
  if (name == "rail-optimized") return {name, 1, true, true};
  if (name == "rail-only") return {name, 1, true, false};
  constexpr std::string_view rails = " on rails";
  NetworkKind kind{name, 1, name.ends_with(rails)};
  const std::string shape = name.substr(0, name.size() - (kind.rails ? rails.size() : 0));
  const auto number = [](const std::string& text) {
    try {
      return parse_number(text);
    } catch (const UserError&) {
      return 0.0;
    }
  };
  constexpr double most = 64;
  if (shape.ends_with(":1")) kind.oversubscription = number(shape.substr(0, shape.size() - 2));
  if (shape.ends_with(":1") && kind.oversubscription >= 1 && kind.oversubscription <= most) return kind;
  kind.oversubscription = 1;
  static const Pattern leaves_and_spines("^([0-9]{1,4}) leaves and ([0-9]{1,4}) spines?$");
  if (const Pattern::Groups found = leaves_and_spines.find(shape); !found.empty()) {
    kind.leaves = std::stoi(found[1]);
    kind.spines = std::stoi(found[2]);
    if (kind.leaves > 1 && kind.spines > 0) return kind;
  }
  std::vector<std::string> names = network_kinds();
  names.insert(names.end(), {"3:1", "2:1 on rails", "16 leaves and 4 spines", "16 leaves and 4 spines on rails"});
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

std::vector<std::string> efficient_networks(const NetworkRequest& request, bool rails) {
  struct Candidate {
    NetworkKind kind;
    LeafShape leaf;
    std::int64_t switches() const { return kind.leaves + kind.spines; }
  };
  std::vector<Candidate> all;
  const LeafUnits units = units_of(request, rails);
  NetworkKind kind{"", 1, rails};
  for (kind.leaves = 2; kind.leaves <= request.ports; ++kind.leaves)
    for (kind.spines = 1; kind.spines < request.ports; ++kind.spines)
      if (const auto leaf = stated_leaves(kind, units.units, units.hosts, units.rails, request.ports))
        all.push_back({kind, *leaf});
  sort_stably(all, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.switches(), a.leaf.ratio(), a.leaf.leaves * a.leaf.uplinks) <
           std::tuple(b.switches(), b.leaf.ratio(), b.leaf.leaves * b.leaf.uplinks);
  });
  std::vector<std::string> names;
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& each : all) {
    if (each.leaf.ratio() >= least) continue;
    least = each.leaf.ratio();
    names.push_back(fmt::format("{} leaves and {} spine{}{}", each.kind.leaves, each.kind.spines,
                                each.kind.spines == 1 ? "" : "s", rails ? " on rails" : ""));
  }
  return names;
}

void add_border(NetworkDesign& design, std::int64_t cables, bool has_top, int ports) {
  design.border_cables = cables;
  design.border_links = has_top ? 0 : cables;
  if (!has_top) design.switches += ceiling(2 * cables, ports);
  design.switches = std::max(design.switches, ceiling(design.ports(), ports));
}

std::optional<NetworkDesign> network_of_fabric(const ClusterSpec& cluster, int ports) {
  NetworkRequest request{cluster.nodes, cluster.node.hcas, ports};
  if (!cluster.others.empty()) {
    const auto types = cluster.counted_types();
    const bool have_equal_adapters =
        std::ranges::all_of(types, [&](const auto& each) { return each.first->hcas == cluster.node.hcas; });
    request = {0, have_equal_adapters ? std::max(1, cluster.node.hcas) : 1, ports};
    for (const auto& [type, nodes] : types) request.nodes += nodes * (type->hcas / request.adapters);
  }
  const Fabric& fabric = *cluster.fabric;
  if (fabric.type() == "nonblocking") return design_network({"nonblocking"}, request);
  const std::span<const FabricLevel> levels = fabric.levels();
  if (fabric.type() != "folded-clos" || levels.empty()) return std::nullopt;
  for (const FabricLevel& level : levels.subspan(1))
    if (level.oversubscription != 1) return std::nullopt;
  const FabricLevel& leaf = levels.front();
  if (is_by_rails(cluster)) {
    if (!cluster.others.empty() && request.adapters != cluster.node.hcas) return std::nullopt;
    const bool is_joined = fabric.joins_rails();
    if (leaf.oversubscription == 1)
      return design_network({is_joined ? "rail-optimized" : "rail-only", 1, true, is_joined}, request);
    if (!is_joined) return std::nullopt;
  }
  NetworkDesign design;
  design.hosts = static_cast<std::int64_t>(request.nodes) * request.adapters;
  design.rails = is_by_rails(cluster) ? request.adapters : 0;
  const std::int64_t rails = std::max<std::int64_t>(1, design.rails), hosts_of_rail = design.hosts / rails;
  design.hosts_of_leaf = std::min<std::int64_t>(leaf.down, hosts_of_rail);
  design.base = design.rails > 0 ? "rail-optimized" : "leaf-spine";
  const std::int64_t leaves = rails * ceiling(hosts_of_rail, design.hosts_of_leaf);
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
