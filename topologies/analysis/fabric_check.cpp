#include "topologies/analysis/fabric_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/process/job.hpp"
#include "topologies/analysis/fabric_routes.hpp"
#include "topologies/analysis/fabric_tree.hpp"

namespace trainyard {
namespace {

/// Describes an end that cannot send and receive at once, which blocks in any fabric; "" if there is none.
std::string half_duplex_end(const FabricView& view) {
  for (const DeviceId end : view.ends)
    for (const LinkId wire : view.links(end))
      if (view.half_duplex(wire) && view.ends.size() > 1)
        return fmt::format("{} is half duplex: sending and receiving share {}",
                           view.graph.links()[view.graph.medium(wire)].name, show(BytesPerSecond{view.capacity(wire)}));
  return "";
}

void decide_with_splitting(FabricCheck& check, const FabricView& view, const IdealSplitting& ideal,
                           const RoutedFabric* routed) {
  const auto decide = [&check](Nonblocking answer, std::string reason) {
    check.nonblocking = answer;
    check.reason = std::move(reason);
  };
  if (std::string end = half_duplex_end(view); !end.empty()) return decide(Nonblocking::no, std::move(end));
  if (ideal.carries_everything())
    return decide(Nonblocking::yes, "spread over all shortest paths, no traffic matrix overloads a link");
  if (carried_by_way_of_all(view, ideal.loads()) || (routed && carried_by_way_of_all(view, routed->loads)))
    return decide(Nonblocking::yes, "routed through every switch in turn (Valiant), any traffic matrix is carried");
  if (routed && routed->check.nonblocking == Nonblocking::yes)
    return decide(Nonblocking::yes, "even without splitting, no permutation overloads a link");
  if (std::string cut = overloaded_cut(view); !cut.empty()) return decide(Nonblocking::no, std::move(cut));
  check.reason = "no overloaded cut was found, and no splitting that carries all traffic";
}

/// Checks a fabric that is not a tree: by ideal splitting, by cuts, and, if known, by the paths really taken.
void check_graph(FabricCheck& check, const FabricView& view, const RoutedFabric* routed) {
  const IdealSplitting ideal(view);
  decide_with_splitting(check, view, ideal, routed);
  std::vector<PairLoads> loads{ideal.half_loads()};
  if (routed) loads.push_back(routed->loads);
  const Bisection bisection = bisection_of(view, loads);
  check.bisection = BytesPerSecond{bisection.rate};
  check.bisection_exact = bisection.exact;
  if (!routed || routed->hops == 0) return;
  check.diameter_hops = routed->hops;
  check.diameter_latency = routed->latency;
}

/// A group of switches: those of one level with the same ends below them.
struct ClosGroup {
  double down = 0, up = 0, hose = 0;  // bytes/s
  std::string name;
};

/// Oversubscription of a folded Clos switch by switch: level by level upwards, as long as there are links up.
std::vector<LevelOversubscription> oversubscription_by_switch(const FabricView& view,
                                                              std::span<const FabricLevel> levels) {
  std::map<DeviceId, std::set<DeviceId>> below;  // ends below each device of the row
  std::set<DeviceId> seen(view.ends.begin(), view.ends.end());
  for (const DeviceId end : view.ends) below[end] = {end};
  std::vector<LevelOversubscription> all;
  for (std::size_t l = 0; !below.empty(); ++l) {
    std::map<DeviceId, std::set<DeviceId>> row;
    std::map<DeviceId, double> down;
    for (const auto& [device, ends] : below)
      for (const LinkId wire : view.links(device)) {
        const DeviceId to = view.graph.ends(wire).to;
        if (seen.contains(to)) continue;
        row[to].insert(ends.begin(), ends.end());
        down[to] += view.capacity(wire);
      }
    for (const auto& [device, ends] : row) seen.insert(device);
    std::map<std::set<DeviceId>, ClosGroup> groups;
    for (const auto& [device, ends] : row) {
      ClosGroup& group = groups[ends];
      if (group.name.empty()) {
        group.name = view.level_name(device);
        for (const DeviceId end : ends) group.hose += view.rate(end);
      }
      group.down += down[device];
      for (const LinkId wire : view.links(device))
        if (!seen.contains(view.graph.ends(wire).to)) group.up += view.capacity(wire);
    }
    LevelOversubscription level;
    if (l < levels.size()) level.configured = levels[l].oversubscription;
    for (const auto& [ends, group] : groups) {
      if (group.up <= 0) continue;
      if (level.groups++ == 0) level.name = group.name;
      level.hcas = std::max(level.hcas, static_cast<int>(ends.size()));
      level.attached = std::max(level.attached, group.down / group.up);
      level.of_hcas = std::max(level.of_hcas, group.hose / group.up);
    }
    if (level.groups > 0) all.push_back(std::move(level));
    below = std::move(row);
  }
  return all;
}

/// Returns false if the check is complete: the fabric is a tree, or some ends cannot reach each other.
bool begin_check(FabricCheck& check, const FabricView& view, std::span<const FabricLevel> levels) {
  check.ends = view.end_word;
  const FabricTree tree = fabric_tree(view);
  if (tree.no_tree.empty()) {
    check_tree(check, view, tree, levels);
    return false;
  }
  check.reason = tree.no_tree;
  // In some permutation, an end sends to one that it cannot reach.
  if (!tree.connected) check.nonblocking = Nonblocking::no;
  return tree.connected && !tree.vertices.empty();
}

/// Checks the fabric of a cluster. Throws Interruption; `check` then has what was found.
void check_cluster(FabricCheck& check, DeviceGraph& graph, const ClusterSpec& spec) {
  const FabricView view(graph);
  const bool has_levels = spec.fabric && !spec.has_islands();  // islands have levels of their own
  const std::span<const FabricLevel> levels = has_levels ? spec.fabric->levels() : std::span<const FabricLevel>{};
  if (begin_check(check, view, levels)) {
    RoutedFabric routed = route_all(graph, view);
    if (!routed.unreachable.empty()) {
      check.nonblocking = Nonblocking::no;
      check.reason = fmt::format("no path leads to {}", routed.unreachable);
      return;
    }
    check_graph(check, view, &routed);
    check.routing = std::move(routed.check);
    std::vector<std::string> rules;  // each once
    for (const ClusterSpec& part : spec.parts())
      if (part.fabric && std::ranges::find(rules, part.fabric->pair_routing()) == rules.end())
        rules.push_back(part.fabric->pair_routing());
    check.routing->rule = fmt::format("{}", fmt::join(rules, "; "));
    if (!levels.empty()) check.oversubscription = oversubscription_by_switch(view, levels);
  }
  if (spec.fabric && !spec.fabric->has_levels()) check.oversubscription.clear();
}

}  // namespace

FabricCheck check_fabric(const DeviceGraph& graph, std::span<const FabricLevel> levels) {
  FabricCheck check;
  const FabricView view(graph);
  if (begin_check(check, view, levels)) check_graph(check, view, nullptr);
  return check;
}

FabricCheck check_cluster_fabric(DeviceGraph& graph, const ClusterSpec& spec) {
  FabricCheck check;
  try {
    check_cluster(check, graph, spec);
  } catch (const Interruption&) {
    check.is_unfinished = true;
    if (check.nonblocking == Nonblocking::unknown) check.reason = "the check was interrupted";
    if (!check.bisection) check.bisection_exact = false;
  }
  return check;
}

}  // namespace trainyard
