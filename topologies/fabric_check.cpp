#include "topologies/fabric_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>

#include "sim/child.hpp"
#include "sim/error.hpp"
#include "sim/simulation.hpp"

namespace trainyard {
namespace {

/// Rates are products of what files say: sums that are equal on paper may differ in the last digits.
constexpr double kRateTolerance = 1e-9;
constexpr double kNoCut = std::numeric_limits<double>::infinity();

/// A device of the fabric in a tree; children come after their parents.
struct FabricVertex {
  DeviceId device = 0;
  int parent = -1;
  int distance = 0;          // links from the nearest HCA
  double up = 0;             // bytes/s to the parent, and back
  std::int64_t latency = 0;  // ps of the link to the parent
  int hcas = 0;              // in its subtree
  double hose = 0;           // bytes/s that these can send
};
struct FabricTree {
  std::vector<FabricVertex> vertices;
  std::string no_tree;    // why it is none
  bool connected = true;  // all HCAs
  int hcas() const { return vertices.front().hcas; }
  double hose() const { return vertices.front().hose; }
};

bool in_fabric(const DeviceGraph& graph, DeviceId d) {
  const DeviceKind kind = graph.devices()[static_cast<std::size_t>(d)].kind;
  return kind == DeviceKind::hca || kind == DeviceKind::network_switch;
}
bool is_hca(const DeviceGraph& graph, DeviceId d) {
  return graph.devices()[static_cast<std::size_t>(d)].kind == DeviceKind::hca;
}
const std::string& device_name(const DeviceGraph& graph, DeviceId d) {
  return graph.devices()[static_cast<std::size_t>(d)].name;
}

std::vector<LinkId> fabric_links(const DeviceGraph& graph, DeviceId from) {
  std::vector<LinkId> found;
  for (const LinkId link : graph.links_from(from))
    if (in_fabric(graph, graph.ends(link).to)) found.push_back(link);
  return found;
}

/// Links from the nearest HCA, by device; −1 where none leads there.
std::vector<int> distances_from_hcas(const DeviceGraph& graph, const std::vector<DeviceId>& hcas) {
  std::vector<int> distance(graph.devices().size(), -1);
  std::deque<DeviceId> next(hcas.begin(), hcas.end());
  for (const DeviceId h : hcas) distance[static_cast<std::size_t>(h)] = 0;
  for (; !next.empty(); next.pop_front())
    for (const LinkId link : fabric_links(graph, next.front())) {
      const DeviceId to = graph.ends(link).to;
      int& at = distance[static_cast<std::size_t>(to)];
      if (at >= 0) continue;
      at = distance[static_cast<std::size_t>(next.front())] + 1;
      next.push_back(to);
    }
  return distance;
}

/// Rooted at the switch that is farthest from the HCAs: the top of a folded Clos.
FabricTree fabric_tree(const DeviceGraph& graph) {
  FabricTree tree;
  const std::vector<DeviceId> hcas = graph.all(DeviceKind::hca);
  const std::vector<int> distance = distances_from_hcas(graph, hcas);
  DeviceId root = -1;
  for (const DeviceId s : graph.all(DeviceKind::network_switch))
    if (root < 0 || distance[static_cast<std::size_t>(s)] > distance[static_cast<std::size_t>(root)]) root = s;
  if (root < 0) {
    tree.no_tree = "there is no switch between the HCAs";
    return tree;
  }
  std::vector<int> at(graph.devices().size(), -1);
  tree.vertices.push_back({root, -1, distance[static_cast<std::size_t>(root)]});
  at[static_cast<std::size_t>(root)] = 0;
  for (std::size_t v = 0; v < tree.vertices.size(); ++v) {
    const FabricVertex vertex = tree.vertices[v];
    bool parent_seen = false;
    for (const LinkId link : fabric_links(graph, vertex.device)) {
      const DeviceGraph::End end = graph.ends(link);
      const bool back = vertex.parent >= 0 && end.to == tree.vertices[static_cast<std::size_t>(vertex.parent)].device;
      if (back && !parent_seen) {
        parent_seen = true;
        continue;
      }
      int& place = at[static_cast<std::size_t>(end.to)];
      if (place >= 0) {
        if (tree.no_tree.empty())
          tree.no_tree = fmt::format("the links between the HCAs are no tree: several ways join {} and {}",
                                     device_name(graph, vertex.device), device_name(graph, end.to));
        continue;
      }
      if (is_hca(graph, vertex.device) && tree.no_tree.empty())
        tree.no_tree = fmt::format("{} has several links to switches", device_name(graph, vertex.device));
      place = static_cast<int>(tree.vertices.size());
      tree.vertices.push_back({end.to, static_cast<int>(v), distance[static_cast<std::size_t>(end.to)],
                               graph.links()[static_cast<std::size_t>(link)].capacity.value, end.latency.count});
    }
  }
  for (const DeviceId h : hcas)
    if (at[static_cast<std::size_t>(h)] < 0 && tree.connected) {
      tree.connected = false;
      tree.no_tree = fmt::format("{} cannot reach the other HCAs", device_name(graph, h));
    }
  for (std::size_t v = tree.vertices.size(); v-- > 0;) {
    FabricVertex& vertex = tree.vertices[v];
    if (is_hca(graph, vertex.device)) {
      vertex.hcas = 1;
      vertex.hose = vertex.up;
    }
    if (vertex.parent < 0) continue;
    FabricVertex& parent = tree.vertices[static_cast<std::size_t>(vertex.parent)];
    parent.hcas += vertex.hcas;
    parent.hose += vertex.hose;
  }
  return tree;
}

/// HCAs of the subtree of `top`, or (not `below`) of all the rest, in order.
std::vector<DeviceId> hcas_of_side(const DeviceGraph& graph, const FabricTree& tree, std::size_t top, bool below) {
  std::vector<char> inside(tree.vertices.size(), 0);
  std::vector<DeviceId> found;
  for (std::size_t v = 0; v < tree.vertices.size(); ++v) {
    const FabricVertex& vertex = tree.vertices[v];
    inside[v] = v == top || (vertex.parent >= 0 && inside[static_cast<std::size_t>(vertex.parent)]);
    if (is_hca(graph, vertex.device) && (inside[v] != 0) == below) found.push_back(vertex.device);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The link that is overloaded most by what it could have to carry, the one with the fewest HCAs of several; none where
/// all have the capacity.
std::optional<std::size_t> worst_cut(const FabricTree& tree) {
  std::optional<std::size_t> worst;
  double most = 1 + kRateTolerance;
  int fewest = 0;
  for (std::size_t v = 1; v < tree.vertices.size(); ++v) {
    const FabricVertex& vertex = tree.vertices[v];
    const double load = std::min(vertex.hose, tree.hose() - vertex.hose) / vertex.up;
    const int crossing = std::min(vertex.hcas, tree.hcas() - vertex.hcas);
    if (load <= most && !(worst && load >= most * (1 - 2 * kRateTolerance) && crossing < fewest)) continue;
    if (load <= 1 + kRateTolerance) continue;
    worst = v;
    most = std::max(most, load * (1 + kRateTolerance));
    fewest = crossing;
  }
  return worst;
}

/// As many pairs as both sides have HCAs for. On every link of their ways, at most min(HCAs below, HCAs above) pairs
/// meet, and `top` is the link where that is most for its capacity: so it limits all of them, and gives each an equal
/// share, max–min fair.
BlockedPattern blocked_pattern(const DeviceGraph& graph, const FabricTree& tree, std::size_t top, double hca_rate) {
  const std::vector<DeviceId> below = hcas_of_side(graph, tree, top, true);
  const std::vector<DeviceId> above = hcas_of_side(graph, tree, top, false);
  const FabricVertex& vertex = tree.vertices[top];
  BlockedPattern pattern;
  for (std::size_t i = 0; i < std::min(below.size(), above.size()); ++i) pattern.pairs.push_back({below[i], above[i]});
  pattern.below = vertex.device;
  pattern.above = tree.vertices[static_cast<std::size_t>(vertex.parent)].device;
  // A pair alone may not get its HCAs' rate either, where a link of its way is slower than one HCA.
  double alone = hca_rate;
  const auto limit = [&](DeviceId hca) {
    std::size_t v = 0;
    while (tree.vertices[v].device != hca) ++v;
    std::vector<std::size_t> way;
    for (; tree.vertices[v].parent >= 0; v = static_cast<std::size_t>(tree.vertices[v].parent)) way.push_back(v);
    return way;
  };
  std::vector<std::size_t> out = limit(pattern.pairs.front().from), in = limit(pattern.pairs.front().to);
  while (!out.empty() && !in.empty() && out.back() == in.back()) {
    out.pop_back();
    in.pop_back();
  }
  for (const auto& way : {out, in})
    for (const std::size_t v : way) alone = std::min(alone, tree.vertices[v].up);
  pattern.slowdown = alone * static_cast<double>(pattern.pairs.size()) / vertex.up;
  return pattern;
}

void decide_nonblocking(FabricCheck& check, const DeviceGraph& graph, const FabricTree& tree) {
  const std::optional<std::size_t> cut = worst_cut(tree);
  if (!cut) {
    check.nonblocking = Nonblocking::yes;
    check.reason = "no link has less capacity than the HCAs on either side of it can send";
    return;
  }
  check.nonblocking = Nonblocking::no;
  const FabricVertex& vertex = tree.vertices[*cut];
  check.reason = fmt::format("{} -> {} carries {}, but {} HCAs can send {} over it", device_name(graph, vertex.device),
                             device_name(graph, tree.vertices[static_cast<std::size_t>(vertex.parent)].device),
                             show(BytesPerSecond{vertex.up}), std::min(vertex.hcas, tree.hcas() - vertex.hcas),
                             show(BytesPerSecond{std::min(vertex.hose, tree.hose() - vertex.hose)}));
  double least = kNoCut, most = 0;
  for (const FabricVertex& v : tree.vertices)
    if (is_hca(graph, v.device)) {
      least = std::min(least, v.up);
      most = std::max(most, v.up);
    }
  // With HCAs of different rates the matrix that fills the link may be no permutation, and its pairs end at different
  // times.
  if (most <= least * (1 + kRateTolerance))
    check.counterexample = blocked_pattern(graph, tree, *cut, least);
  else
    check.reason += " (no pattern of pairs: the HCAs differ in rate)";
}

/// Least capacity between the sides when `of[v][j]` HCAs are chosen below v and v itself is on the other side; by
/// symmetry, with v on their side it is of[v][all of v − j].
double exact_bisection(const DeviceGraph& graph, const FabricTree& tree) {
  std::vector<std::vector<double>> of(tree.vertices.size());
  for (std::size_t v = tree.vertices.size(); v-- > 0;) {
    const FabricVertex& vertex = tree.vertices[v];
    std::vector<double>& cut = of[v];
    if (is_hca(graph, vertex.device))
      cut = {0, kNoCut};
    else if (cut.empty())
      cut = {0};
    if (vertex.parent < 0) break;
    std::vector<double> with_link(cut.size());
    for (std::size_t j = 0; j < cut.size(); ++j) with_link[j] = std::min(cut[j], cut[cut.size() - 1 - j] + vertex.up);
    std::vector<double>& parent = of[static_cast<std::size_t>(vertex.parent)];
    if (parent.empty()) parent = {0};
    std::vector<double> joined(parent.size() + with_link.size() - 1, kNoCut);
    for (std::size_t j = 0; j < with_link.size(); ++j)
      for (std::size_t i = 0; i < parent.size(); ++i) joined[i + j] = std::min(joined[i + j], parent[i] + with_link[j]);
    parent = std::move(joined);
    std::vector<double>().swap(cut);
  }
  const std::size_t half = static_cast<std::size_t>(tree.hcas()) / 2;
  return std::min(of[0][half], of[0][static_cast<std::size_t>(tree.hcas()) - half]);
}

/// Min-cut of a tree: each switch takes the side that costs less.
double cut_of_split(const DeviceGraph& graph, const FabricTree& tree, const std::vector<char>& chosen) {
  std::vector<double> apart(tree.vertices.size(), 0), with(tree.vertices.size(), 0);
  for (std::size_t v = tree.vertices.size(); v-- > 0;) {
    const FabricVertex& vertex = tree.vertices[v];
    if (is_hca(graph, vertex.device)) (chosen[static_cast<std::size_t>(vertex.device)] ? apart[v] : with[v]) = kNoCut;
    if (vertex.parent < 0) continue;
    apart[static_cast<std::size_t>(vertex.parent)] += std::min(apart[v], with[v] + vertex.up);
    with[static_cast<std::size_t>(vertex.parent)] += std::min(with[v], apart[v] + vertex.up);
  }
  return std::min(apart[0], with[0]);
}

/// The first half of the HCAs in the order of the leaves: whole groups but one a level.
double bisection_bound(const DeviceGraph& graph, const FabricTree& tree) {
  std::vector<char> chosen(graph.devices().size(), 0);
  int left = tree.hcas() / 2;
  // Children lie together and in the order of their parents, so HCAs of one depth come group by group.
  for (const FabricVertex& vertex : tree.vertices)
    if (is_hca(graph, vertex.device) && left-- > 0) chosen[static_cast<std::size_t>(vertex.device)] = 1;
  return cut_of_split(graph, tree, chosen);
}

std::vector<LevelOversubscription> oversubscriptions(const DeviceGraph& graph, const FabricTree& tree,
                                                     std::span<const FabricLevel> levels) {
  std::vector<double> links_down(tree.vertices.size(), 0);
  for (const FabricVertex& vertex : tree.vertices)
    if (vertex.parent >= 0) links_down[static_cast<std::size_t>(vertex.parent)] += vertex.up;
  std::map<int, LevelOversubscription> found;
  for (std::size_t v = 1; v < tree.vertices.size(); ++v) {
    const FabricVertex& vertex = tree.vertices[v];
    if (is_hca(graph, vertex.device)) continue;
    LevelOversubscription& level = found[vertex.distance];
    if (level.groups++ == 0) {
      level.name = device_name(graph, vertex.device);
      level.name.erase(level.name.find_last_not_of("0123456789") + 1);
      const auto l = static_cast<std::size_t>(vertex.distance) - 1;
      if (l < levels.size()) level.configured = levels[l].oversubscription;
    }
    level.hcas = std::max(level.hcas, vertex.hcas);
    level.attached = std::max(level.attached, links_down[v] / vertex.up);
    level.of_hcas = std::max(level.of_hcas, vertex.hose / vertex.up);
  }
  std::vector<LevelOversubscription> all;
  for (auto& [distance, level] : found) all.push_back(std::move(level));
  return all;
}

/// The longest way between two HCAs, `length` a link's part in it: at each switch the two deepest branches.
template <class Length>
std::int64_t longest_way(const DeviceGraph& graph, const FabricTree& tree, Length length) {
  std::vector<std::int64_t> deepest(tree.vertices.size(), -1);  // −1: no HCA below
  std::int64_t longest = 0;
  for (std::size_t v = tree.vertices.size(); v-- > 1;) {
    const FabricVertex& vertex = tree.vertices[v];
    if (is_hca(graph, vertex.device)) deepest[v] = 0;
    if (deepest[v] < 0) continue;
    const std::int64_t branch = deepest[v] + length(vertex);
    std::int64_t& parent = deepest[static_cast<std::size_t>(vertex.parent)];
    if (parent >= 0) longest = std::max(longest, parent + branch);
    parent = std::max(parent, branch);
  }
  return longest;
}

/// Actor i sends pair i's message, and actor i + pairs receives it.
class PairMachine : public Machine {
 public:
  PairMachine(DeviceGraph& graph, std::span<const HcaPair> pairs) : graph_(graph), pairs_(pairs) {}
  std::span<const Link> links() const override { return graph_.links(); }
  Cost price(const Work&, Actor) const override { return {}; }
  Route route(Actor from, Actor, PathClass) const override {
    const HcaPair& pair = pairs_[static_cast<std::size_t>(from) % pairs_.size()];
    Route route = graph_.route(pair.from, pair.to, PathClass::fabric);
    route.latency = {};
    return route;
  }

 private:
  DeviceGraph& graph_;
  std::span<const HcaPair> pairs_;
};

class OneMessage : public Program {
 public:
  OneMessage(Kind kind, Bytes bytes, Actor peer) : kind_(kind), bytes_(bytes), peer_{peer} {}
  Pull next(Op& op) override {
    if (given_) return Pull::done;
    given_ = true;
    op = {};
    op.kind = kind_;
    op.message.bytes = bytes_;
    return Pull::op;
  }
  std::span<const Actor> slots() const override { return peer_; }

 private:
  Kind kind_;
  Bytes bytes_;
  std::vector<Actor> peer_;
  bool given_ = false;
};

double time_of_pairs(DeviceGraph& graph, std::span<const HcaPair> pairs, Bytes bytes) {
  return std::strtod(in_child([&] {
                       PairMachine machine(graph, pairs);
                       Simulation simulation(machine);
                       const auto count = static_cast<Actor>(pairs.size());
                       for (Actor a = 0; a < count; ++a) {
                         simulation.add(a, std::make_unique<OneMessage>(Kind::send, bytes, a + count));
                         simulation.add(a + count, std::make_unique<OneMessage>(Kind::recv, Bytes{}, a));
                       }
                       return exact(simulation.run().end.value);
                     }).c_str(),
                     nullptr);
}

}  // namespace

FabricCheck check_fabric(const DeviceGraph& graph, std::span<const FabricLevel> levels) {
  FabricCheck check;
  const FabricTree tree = fabric_tree(graph);
  if (!tree.no_tree.empty()) {
    check.reason = tree.no_tree;
    // Some permutation has it send to one that it cannot reach.
    if (!tree.connected) check.nonblocking = Nonblocking::no;
    return check;
  }
  decide_nonblocking(check, graph, tree);
  check.bisection_exact = static_cast<std::size_t>(tree.hcas()) <= kMostExactBisection;
  check.bisection = BytesPerSecond{check.bisection_exact ? exact_bisection(graph, tree) : bisection_bound(graph, tree)};
  check.oversubscription = oversubscriptions(graph, tree, levels);
  check.diameter_hops = static_cast<int>(longest_way(graph, tree, [](const FabricVertex&) { return 1; }));
  check.diameter_latency =
      Picoseconds{longest_way(graph, tree, [](const FabricVertex& vertex) { return vertex.latency; })};
  return check;
}

BytesPerSecond cut_capacity(const DeviceGraph& graph, const std::vector<DeviceId>& from) {
  const FabricTree tree = fabric_tree(graph);
  if (!tree.no_tree.empty()) throw UserError(tree.no_tree);
  std::vector<char> chosen(graph.devices().size(), 0);
  for (const DeviceId hca : from) chosen.at(static_cast<std::size_t>(hca)) = 1;
  return BytesPerSecond{cut_of_split(graph, tree, chosen)};
}

double simulated_slowdown(const DeviceGraph& graph, const std::vector<HcaPair>& pairs) {
  // Routes are found, and remembered, by a graph that may change: one of the fabric alone.
  DeviceGraph fabric;
  std::map<DeviceId, DeviceId> at;
  for (DeviceId d = 0; d < static_cast<DeviceId>(graph.devices().size()); ++d)
    if (in_fabric(graph, d)) at[d] = fabric.add(graph.devices()[static_cast<std::size_t>(d)]);
  for (LinkId link = 0; link < static_cast<LinkId>(graph.links().size()); link += 2) {  // the way there; +1: back
    const DeviceGraph::End end = graph.ends(link);
    const Link& of = graph.links()[static_cast<std::size_t>(link)];
    if (at.contains(end.from) && at.contains(end.to))
      fabric.connect(at[end.from], at[end.to], {of.kind, of.capacity, end.latency});
  }
  std::vector<HcaPair> all;
  double slowest = kNoCut;
  for (const HcaPair& pair : pairs) {
    all.push_back({at.at(pair.from), at.at(pair.to)});
    const Route route = fabric.route(all.back().from, all.back().to, PathClass::fabric);
    for (const LinkUse& use : route.links)
      slowest = std::min(slowest, fabric.links()[static_cast<std::size_t>(use.link)].capacity.value);
  }
  const Bytes bytes{slowest};  // a second: far above the clock's resolution
  return time_of_pairs(fabric, all, bytes) / time_of_pairs(fabric, std::span(all).first(1), bytes);
}

}  // namespace trainyard
