#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "topologies/analysis/fabric_tree.hpp"

namespace trainyard {
namespace {

constexpr double kNoCut = std::numeric_limits<double>::infinity();

/// Ends in the subtree of `top` if `below`, otherwise all the other ends, in order.
std::vector<DeviceId> ends_of_side(const FabricView& view, const FabricTree& tree, std::size_t top, bool below) {
  std::vector<char> inside(tree.vertices.size(), 0);
  std::vector<DeviceId> found;
  for (std::size_t v = 0; v < tree.vertices.size(); ++v) {
    const FabricVertex& vertex = tree.vertices[v];
    inside[v] = v == top || (vertex.parent >= 0 && inside[vertex.parent]);
    if (view.is_end(vertex.device) && (inside[v] != 0) == below) found.push_back(vertex.device);
  }
  std::ranges::sort(found);
  return found;
}

/// The most that any matrix puts on the link above a vertex, in bytes/s; both directions together if they share the
/// rate.
double worst_traffic(const FabricTree& tree, const FabricVertex& vertex) {
  return vertex.directions * std::min(vertex.hose, tree.hose() - vertex.hose);
}
int pairs_across(const FabricTree& tree, const FabricVertex& vertex) {
  return vertex.directions * std::min(vertex.hcas, tree.hcas() - vertex.hcas);
}

/// The most overloaded link; among several, the one with the fewest pairs. No value: all links have the capacity.
std::optional<std::size_t> worst_cut(const FabricTree& tree) {
  const auto load = [&tree](std::size_t v) { return worst_traffic(tree, tree.vertices[v]) / tree.vertices[v].up; };
  double most = 1;
  for (std::size_t v = 1; v < tree.vertices.size(); ++v) most = std::max(most, load(v));
  if (most <= 1 + kRateTolerance) return std::nullopt;
  std::optional<std::size_t> worst;
  for (std::size_t v = 1; v < tree.vertices.size(); ++v)
    if (load(v) >= most * (1 - kRateTolerance) &&
        (!worst || pairs_across(tree, tree.vertices[v]) < pairs_across(tree, tree.vertices[*worst])))
      worst = v;
  return worst;
}

/// Builds a pattern with as many pairs as both sides have ends. On every link of their paths, at most min(ends below,
/// ends above) pairs meet. On the link of `top` this is the largest relative to capacity; therefore it limits all of
/// them and gives each an equal share, max–min fair. On a half-duplex link, as many pairs send back.
BlockedPattern pattern_of_cut(const FabricView& view, const FabricTree& tree, std::size_t top) {
  const std::vector<DeviceId> below = ends_of_side(view, tree, top, true);
  const std::vector<DeviceId> above = ends_of_side(view, tree, top, false);
  const FabricVertex& vertex = tree.vertices[top];
  BlockedPattern pattern;
  for (std::size_t i = 0; i < std::min(below.size(), above.size()); ++i) pattern.pairs.push_back({below[i], above[i]});
  if (vertex.directions > 1)
    for (std::size_t i = 0; i < std::min(below.size(), above.size()); ++i)
      pattern.pairs.push_back({above[i], below[i]});
  pattern.below = vertex.device;
  pattern.above = tree.vertices[vertex.parent].device;
  pattern.link = view.graph.links()[vertex.wire ^ 1].name;
  // A pair alone may not get its ends' rate either, if a link of its path is slower than one of them.
  pattern.slowdown =
      rate_alone(view, tree_path(tree, pattern.pairs.front())) * static_cast<double>(pattern.pairs.size()) / vertex.up;
  return pattern;
}

/// A medium that the wires of several ends share in the direction towards it: a hub.
struct SharedMedium {
  LinkId link = -1;
  std::vector<DeviceId> ends;
  double hose = 0;
};
std::optional<SharedMedium> medium_of_ends(const FabricView& view, const FabricTree& tree) {
  std::map<LinkId, SharedMedium> found;
  for (const FabricVertex& vertex : tree.vertices) {
    if (vertex.parent < 0 || !view.is_end(vertex.device) || vertex.directions > 1) continue;
    const LinkId link = view.graph.medium(vertex.wire ^ 1);
    if (link < 0) continue;
    SharedMedium& medium = found[link];
    medium.link = link;
    medium.ends.push_back(vertex.device);
    medium.hose += vertex.hose;
  }
  for (auto& [link, medium] : found)
    if (medium.ends.size() > 1) return medium;
  return std::nullopt;
}

/// Every end sends to the next one.
BlockedPattern pattern_of_medium(const FabricView& view, const FabricTree& tree, const SharedMedium& medium) {
  BlockedPattern pattern;
  for (std::size_t i = 0; i < medium.ends.size(); ++i)
    pattern.pairs.push_back({medium.ends[i], medium.ends[(i + 1) % medium.ends.size()]});
  pattern.link = view.graph.links()[medium.link].name;
  pattern.slowdown = rate_alone(view, tree_path(tree, pattern.pairs.front())) *
                     static_cast<double>(pattern.pairs.size()) / view.capacity(medium.link);
  return pattern;
}

/// If ends have different rates, the matrix that fills the link may not be a permutation, and its pairs end at
/// different times.
constexpr const char* kDifferentRates = " (no pattern of pairs: the {}s differ in rate)";

void refute_by_cut(FabricCheck& check, const FabricView& view, const FabricTree& tree, std::size_t cut) {
  check.nonblocking = Nonblocking::no;
  const FabricVertex& vertex = tree.vertices[cut];
  const std::string traffic = show(BytesPerSecond{worst_traffic(tree, vertex)});
  const auto ends = static_cast<std::size_t>(std::min(vertex.hcas, tree.hcas() - vertex.hcas));
  const std::string up =
      fmt::format("{} -> {}", view.name(vertex.device), view.name(tree.vertices[vertex.parent].device));
  if (vertex.directions == 1)
    check.reason = fmt::format("{} carries {}, but {} can send {} over it", up, show(BytesPerSecond{vertex.up}),
                               view.count(ends), traffic);
  else
    check.reason = fmt::format("{} is half duplex: both directions share {}, but {} can send and receive {} over it",
                               view.graph.links()[view.graph.medium(vertex.wire)].name, show(BytesPerSecond{vertex.up}),
                               view.count(ends), traffic);
  if (view.equal_rates())
    check.counterexample = pattern_of_cut(view, tree, cut);
  else
    check.reason += fmt::format(fmt::runtime(kDifferentRates), view.end_word);
}

void decide_tree(FabricCheck& check, const FabricView& view, const FabricTree& tree) {
  const std::optional<std::size_t> cut = worst_cut(tree);
  const std::optional<SharedMedium> medium = medium_of_ends(view, tree);
  const double medium_load = medium ? medium->hose / view.capacity(medium->link) : 0;
  const double cut_load = cut ? worst_traffic(tree, tree.vertices[*cut]) / tree.vertices[*cut].up : 0;
  if (medium_load > std::max(cut_load, 1 + kRateTolerance)) {
    check.nonblocking = Nonblocking::no;
    check.reason = fmt::format("{} carries {} for all, one sender at a time, but {} can send {} over it",
                               view.graph.links()[medium->link].name, show(BytesPerSecond{view.capacity(medium->link)}),
                               view.count(medium->ends.size()), show(BytesPerSecond{medium->hose}));
    if (view.equal_rates())
      check.counterexample = pattern_of_medium(view, tree, *medium);
    else
      check.reason += fmt::format(fmt::runtime(kDifferentRates), view.end_word);
  } else if (cut) {
    refute_by_cut(check, view, tree, *cut);
  } else {
    check.nonblocking = Nonblocking::yes;
    check.reason = fmt::format("no link has less capacity than the {}s on either side of it can send", view.end_word);
  }
}

/// `cuts[v][j]` is the least capacity between the sides if j ends below v are chosen and v itself is on the other side.
/// By symmetry, with v on their side it is cuts[v][all of v − j].
double exact_bisection(const FabricView& view, const FabricTree& tree) {
  std::vector<std::vector<double>> cuts(tree.vertices.size());
  for (std::size_t v = tree.vertices.size(); v-- > 0;) {
    const FabricVertex& vertex = tree.vertices[v];
    std::vector<double>& cut = cuts[v];
    if (view.is_end(vertex.device))
      cut = {0, kNoCut};
    else if (cut.empty())
      cut = {0};
    if (vertex.parent < 0) break;
    std::vector<double> with_link(cut.size());
    for (std::size_t j = 0; j < cut.size(); ++j) with_link[j] = std::min(cut[j], cut[cut.size() - 1 - j] + vertex.up);
    std::vector<double>& parent = cuts[vertex.parent];
    if (parent.empty()) parent = {0};
    std::vector<double> joined(parent.size() + with_link.size() - 1, kNoCut);
    for (std::size_t j = 0; j < with_link.size(); ++j)
      for (std::size_t i = 0; i < parent.size(); ++i) joined[i + j] = std::min(joined[i + j], parent[i] + with_link[j]);
    parent = std::move(joined);
    std::vector<double>().swap(cut);
  }
  const std::size_t half = static_cast<std::size_t>(tree.hcas()) / 2;
  return std::min(cuts[0][half], cuts[0][static_cast<std::size_t>(tree.hcas()) - half]);
}

/// Upper bound of the bisection: the min-cut between the first half of the ends, in the order of the leaves (whole
/// groups, except one a level), and the others. Each switch takes the cheaper side.
double bisection_bound(const FabricView& view, const FabricTree& tree) {
  std::vector<char> chosen(tree.vertices.size(), 0);
  int left = tree.hcas() / 2;
  // Children lie together and in the order of their parents; therefore ends of one depth come group by group.
  for (std::size_t v = 0; v < tree.vertices.size(); ++v)
    if (view.is_end(tree.vertices[v].device) && left-- > 0) chosen[v] = 1;
  std::vector<double> least_if_other(tree.vertices.size(), 0), least_if_chosen(tree.vertices.size(), 0);
  for (std::size_t v = tree.vertices.size(); v-- > 0;) {
    const FabricVertex& vertex = tree.vertices[v];
    if (view.is_end(vertex.device)) (chosen[v] ? least_if_other[v] : least_if_chosen[v]) = kNoCut;
    if (vertex.parent < 0) continue;
    least_if_other[vertex.parent] += std::min(least_if_other[v], least_if_chosen[v] + vertex.up);
    least_if_chosen[vertex.parent] += std::min(least_if_chosen[v], least_if_other[v] + vertex.up);
  }
  return std::min(least_if_other[0], least_if_chosen[0]);
}

std::vector<LevelOversubscription> oversubscriptions(const FabricView& view, const FabricTree& tree,
                                                     std::span<const FabricLevel> levels) {
  std::vector<double> links_down(tree.vertices.size(), 0);
  for (const FabricVertex& vertex : tree.vertices)
    if (vertex.parent >= 0) links_down[vertex.parent] += vertex.up;
  std::map<std::pair<int, int>, LevelOversubscription> found;  // indexed by distance from the ends, and by island
  for (std::size_t v = 1; v < tree.vertices.size(); ++v) {
    const FabricVertex& vertex = tree.vertices[v];
    if (view.is_end(vertex.device) || vertex.hcas == 0) continue;
    const int island = view.graph.devices()[static_cast<std::size_t>(vertex.device)].island;
    LevelOversubscription& level = found[{vertex.distance, island}];
    if (level.groups++ == 0) {
      level.name = view.name(vertex.device);
      level.name.erase(level.name.find_last_not_of("0123456789") + 1);
      const auto l = static_cast<std::size_t>(vertex.distance) - 1;
      if (l < levels.size()) level.configured = levels[l].oversubscription;
    }
    level.hcas = std::max(level.hcas, vertex.hcas);
    level.attached = std::max(level.attached, links_down[v] / vertex.up);
    level.of_hcas = std::max(level.of_hcas, vertex.hose / vertex.up);
  }
  std::vector<LevelOversubscription> all;
  for (auto& [place, level] : found) all.push_back(std::move(level));
  return all;
}

/// The longest path between two ends, with `length` of each link: at each switch the two deepest branches.
template <class Length>
std::int64_t longest_path(const FabricView& view, const FabricTree& tree, Length length) {
  std::vector<std::int64_t> deepest(tree.vertices.size(), -1);  // −1: no end below
  std::int64_t longest = 0;
  for (std::size_t v = tree.vertices.size(); v-- > 1;) {
    const FabricVertex& vertex = tree.vertices[v];
    if (view.is_end(vertex.device)) deepest[v] = 0;
    if (deepest[v] < 0) continue;
    const std::int64_t branch = deepest[v] + length(vertex);
    std::int64_t& parent = deepest[vertex.parent];
    if (parent >= 0) longest = std::max(longest, parent + branch);
    parent = std::max(parent, branch);
  }
  return longest;
}

}  // namespace

void check_tree(FabricCheck& check, const FabricView& view, const FabricTree& tree,
                std::span<const FabricLevel> levels) {
  decide_tree(check, view, tree);
  check.bisection_exact = static_cast<std::size_t>(tree.hcas()) <= kMostExactBisection;
  double bisection = check.bisection_exact ? exact_bisection(view, tree) : bisection_bound(view, tree);
  // All traffic between any halves crosses the hub.
  if (const auto medium = medium_of_ends(view, tree); medium && medium->ends.size() == view.ends.size())
    bisection = std::min(bisection, view.capacity(medium->link));
  check.bisection = BytesPerSecond{bisection};
  check.oversubscription = oversubscriptions(view, tree, levels);
  check.diameter_hops = static_cast<int>(longest_path(view, tree, [](const FabricVertex&) { return 1; }));
  check.diameter_latency = Picoseconds{longest_path(
      view, tree, [&view](const FabricVertex& vertex) { return view.graph.ends(vertex.wire).latency.count; })};
}

}  // namespace trainyard
