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
  std::vector<int> at;    // of each device among the vertices; −1: not reached from the root
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
  std::vector<int>& at = tree.at;
  at.assign(graph.devices().size(), -1);
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

/// The most that any matrix of the HCAs puts on the link above a vertex, for the link's capacity.
double worst_load(const FabricTree& tree, const FabricVertex& vertex) {
  return std::min(vertex.hose, tree.hose() - vertex.hose) / vertex.up;
}
int pairs_across(const FabricTree& tree, const FabricVertex& vertex) {
  return std::min(vertex.hcas, tree.hcas() - vertex.hcas);
}

/// The link that is overloaded most, and of several that with the fewest pairs; none where all have the capacity.
std::optional<std::size_t> worst_cut(const FabricTree& tree) {
  double most = 1;
  for (std::size_t v = 1; v < tree.vertices.size(); ++v) most = std::max(most, worst_load(tree, tree.vertices[v]));
  if (most <= 1 + kRateTolerance) return std::nullopt;
  std::optional<std::size_t> worst;
  for (std::size_t v = 1; v < tree.vertices.size(); ++v)
    if (worst_load(tree, tree.vertices[v]) >= most * (1 - kRateTolerance) &&
        (!worst || pairs_across(tree, tree.vertices[v]) < pairs_across(tree, tree.vertices[*worst])))
      worst = v;
  return worst;
}

/// The vertices below the links of the way between two HCAs: those up, then those down.
struct TreeWay {
  std::vector<std::size_t> up, down;
};
TreeWay tree_way(const FabricTree& tree, const HcaPair& pair) {
  const auto to_root = [&tree](DeviceId hca) {
    std::vector<std::size_t> way;
    for (int v = tree.at.at(static_cast<std::size_t>(hca)); tree.vertices[static_cast<std::size_t>(v)].parent >= 0;
         v = tree.vertices[static_cast<std::size_t>(v)].parent)
      way.push_back(static_cast<std::size_t>(v));
    return way;
  };
  TreeWay way{to_root(pair.from), to_root(pair.to)};
  while (!way.up.empty() && !way.down.empty() && way.up.back() == way.down.back()) {
    way.up.pop_back();
    way.down.pop_back();
  }
  std::reverse(way.down.begin(), way.down.end());
  return way;
}
double rate_alone(const FabricTree& tree, const HcaPair& pair) {
  const TreeWay way = tree_way(tree, pair);
  double rate = kNoCut;
  for (const auto& part : {way.up, way.down})
    for (const std::size_t v : part) rate = std::min(rate, tree.vertices[v].up);
  return rate;
}

/// As many pairs as both sides have HCAs for. On every link of their ways, at most min(HCAs below, HCAs above) pairs
/// meet, and `top` is the link where that is most for its capacity: so it limits all of them, and gives each an equal
/// share, max–min fair.
BlockedPattern blocked_pattern(const DeviceGraph& graph, const FabricTree& tree, std::size_t top) {
  const std::vector<DeviceId> below = hcas_of_side(graph, tree, top, true);
  const std::vector<DeviceId> above = hcas_of_side(graph, tree, top, false);
  const FabricVertex& vertex = tree.vertices[top];
  BlockedPattern pattern;
  for (std::size_t i = 0; i < std::min(below.size(), above.size()); ++i) pattern.pairs.push_back({below[i], above[i]});
  pattern.below = vertex.device;
  pattern.above = tree.vertices[static_cast<std::size_t>(vertex.parent)].device;
  // A pair alone may not get its HCAs' rate either, where a link of its way is slower than one HCA.
  pattern.slowdown = rate_alone(tree, pattern.pairs.front()) * static_cast<double>(pattern.pairs.size()) / vertex.up;
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
    check.counterexample = blocked_pattern(graph, tree, *cut);
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

/// Actor i sends pair i's message, and actor i + pairs receives it. Only the links of the ways, each direction one; no
/// shortest paths, which would be remembered for every sender: in a tree there is one way.
class PairMachine : public Machine {
 public:
  PairMachine(const DeviceGraph& graph, const FabricTree& tree, std::span<const HcaPair> pairs) {
    std::map<LinkId, LinkId> ours;
    const auto use = [&](DeviceId from, DeviceId to) {
      const LinkId link = graph.link(from, to).value();
      const auto [place, fresh] = ours.try_emplace(link, static_cast<LinkId>(links_.size()));
      if (fresh) links_.push_back(graph.links()[static_cast<std::size_t>(link)]);
      ways_.back().push_back({place->second, 1});
    };
    const auto parent = [&tree](std::size_t v) {
      return tree.vertices[static_cast<std::size_t>(tree.vertices[v].parent)].device;
    };
    for (const HcaPair& pair : pairs) {
      ways_.emplace_back();
      const TreeWay way = tree_way(tree, pair);
      for (const std::size_t v : way.up) use(tree.vertices[v].device, parent(v));
      for (const std::size_t v : way.down) use(parent(v), tree.vertices[v].device);
    }
  }
  std::span<const Link> links() const override { return links_; }
  Cost price(const Work&, Actor) const override { return {}; }
  Route route(Actor from, Actor, PathClass) const override {
    Route route;
    route.links = ways_[static_cast<std::size_t>(from) % ways_.size()];
    return route;
  }

 private:
  std::vector<Link> links_;
  std::vector<std::vector<LinkUse>> ways_;  // of each pair
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

double time_of_pairs(const DeviceGraph& graph, const FabricTree& tree, std::span<const HcaPair> pairs, Bytes bytes) {
  return std::strtod(in_child([&] {
                       PairMachine machine(graph, tree, pairs);
                       Simulation simulation(machine);
                       const auto count = static_cast<Actor>(pairs.size());
                       for (Actor a = 0; a < count; ++a)
                         simulation.add(a, std::make_unique<OneMessage>(Kind::send, bytes, a + count));
                       for (Actor a = 0; a < count; ++a)
                         simulation.add(a + count, std::make_unique<OneMessage>(Kind::recv, Bytes{}, a));
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
  const FabricTree tree = fabric_tree(graph);
  if (!tree.no_tree.empty()) throw UserError(tree.no_tree);
  // A second alone: far above the clock's resolution.
  const Bytes bytes{rate_alone(tree, pairs.at(0))};
  return time_of_pairs(graph, tree, pairs, bytes) / time_of_pairs(graph, tree, std::span(pairs).first(1), bytes);
}

}  // namespace trainyard
