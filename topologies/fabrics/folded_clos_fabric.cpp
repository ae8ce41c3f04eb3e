#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "topologies/fabrics/clos_shape.hpp"
#include "topologies/fabrics/fabric_rows.hpp"
#include "topologies/fabrics/pods.hpp"
#include "topologies/fabrics/rails.hpp"
#include "topologies/tree_router.hpp"

namespace trainyard {
namespace {

constexpr double kLeastRatio = 1e-3, kMostRatio = 1e6;  ///< limits of an oversubscription

/// Returns true for a switch, or a cable between switches: in a spraying fabric, a vertex or edge stands for several of
/// these. Devices of nodes return false.
bool between_switches(const RemovedPart& out) { return out.name.find('/') == std::string::npos; }

/// The share of each group's uplinks that is left after switches and cables have been removed.
class TakenUplinks {
 public:
  TakenUplinks(const ClosShape& shape, const ClusterSpec& spec)
      : shape_(shape), prefix_(spec.island > 0 ? fmt::format("island{}-", spec.island) : "") {
    for (const RemovedPart& out : spec.taken_out)
      if (between_switches(out)) out_.insert(out.name);
    if (none()) return;
    const std::vector<std::string> names = shape.names();
    std::set<std::string> wires;
    for (int level = 0; level + 1 < shape.levels(); ++level)
      for (int group = 0; group < shape.groups(level); ++group)
        for (const auto& [from, to] : uplinks(level, group)) wires.insert({from + " - " + to, to + " - " + from});
    for (const RemovedPart& out : spec.taken_out) {
      if (!between_switches(out)) continue;
      const std::size_t dash = out.name.find(" - ");
      require(names, out.name.substr(0, dash), out.place);
      if (dash == std::string::npos) continue;
      require(names, out.name.substr(dash + 3), out.place);
      if (!wires.contains(out.name))
        fail(out.place, fmt::format("cluster.taken_out: \"{}\": no wire joins them", out.name));
    }
  }
  bool none() const { return out_.empty(); }

  double share(int level, int group) const {
    const auto all = uplinks(level, group);
    const auto remaining = std::ranges::count_if(all, [this](const auto& wire) {
      const auto& [from, to] = wire;
      return !out_.contains(from) && !out_.contains(to) && !out_.contains(from + " - " + to) &&
             !out_.contains(to + " - " + from);
    });
    return static_cast<double>(remaining) / static_cast<double>(all.size());
  }
  bool has_leaf(int group) const { return !out_.contains(shape_.name(0, group, 0)); }

 private:
  const ClosShape& shape_;
  std::string prefix_;  ///< begins the names of an island's switches in the cluster
  std::set<std::string> out_;

  /// Both ends of each uplink.
  std::vector<std::pair<std::string, std::string>> uplinks(int level, int group) const {
    std::vector<std::pair<std::string, std::string>> all;
    const int ports = static_cast<int>(shape_.uplinks(level)), above = group / shape_.down(level + 1);
    for (int p = 0; p < shape_.planes(level); ++p)
      for (int j = 0; j < ports; ++j)
        all.emplace_back(shape_.name(level, group, p), shape_.name(level + 1, above, p * ports + j));
    return all;
  }
  void require(const std::vector<std::string>& names, const std::string& name, const Place& place) const {
    if (std::ranges::find(names, name) != names.end()) return;
    std::vector<std::string> full;
    for (const std::string& each : names) full.push_back(prefix_ + each);
    fail(place,
         fmt::format("cluster.taken_out: unknown device \"{0}{1}\"{2}", prefix_, name, hint(prefix_ + name, full)));
  }
};

struct FoldedClosShape {
  // Levels from the leaves with their HCAs upwards; one more stage joins all groups of the last.
  std::vector<FabricLevel> levels;
  bool rails = false;  // a leaf takes the HCAs of one index of several nodes, instead of all HCAs of a node
  bool joined = true;  // false: each rail has spines of its own, and no switch joins two rails (Wang et al. 2023)
  // Each message takes one path: that of the hash of its HCAs (static ECMP), or the least loaded (`hash.adaptive`). False:
  // messages are sprayed over all paths.
  bool hashed = false;
  RouteHash hash;
  BytesPerSecond link_rate;  // between switches; 0: the rate of the fastest HCA
};

/// A folded Clos (Clos 1953; Leiserson 1985: fat tree).
class FoldedClosFabric : public Fabric {
 public:
  explicit FoldedClosFabric(FoldedClosShape shape) : shape_(std::move(shape)) {}

  std::string type() const override { return "folded-clos"; }
  std::string title() const override {
    if (flowlets()) return fmt::format("{} (flowlets of {})", type(), show(shape_.hash.flowlet));
    if (shape_.hash.adaptive) return fmt::format("{} (adaptive)", type());
    return shape_.hashed ? fmt::format("{} (hashed, seed {}{})", type(), shape_.hash.seed, pairs_text(", ")) : type();
  }
  std::string summary() const override {
    std::vector<std::string> words;
    for (const FabricLevel& level : shape_.levels)
      words.push_back(fmt::format("{} at {}:1", level.down, level.oversubscription));
    if (shape_.rails) words.emplace_back(shape_.joined ? "rails" : "rails without a spine between them");
    return fmt::format("{}", fmt::join(words, ", "));
  }
  std::span<const FabricLevel> levels() const override { return shape_.levels; }
  std::vector<LinkKind> link_kinds() const override { return {LinkKind::hca, LinkKind::uplink}; }
  std::string routing() const override {
    if (flowlets())
      return fmt::format("flowlets: every {} of a message take the path that is the least loaded when they start",
                         show(shape_.hash.flowlet));
    if (shape_.hash.adaptive) return "adaptive: each message takes the least loaded of its paths when it starts";
    return shape_.hashed ? fmt::format("hashed ECMP with seed {}: one path for each pair of HCAs{}", shape_.hash.seed,
                                       pairs_text(" and each of "))
                         : "ideal spraying over all uplinks";
  }
  std::string pair_routing() const override {
    if (shape_.hash.adaptive) return fmt::format("one path for each pair, drawn with seed {}", shape_.hash.seed);
    return shape_.hashed ? fmt::format("hashed ECMP, seed {}{}", shape_.hash.seed, pairs_text(", "))
                         : Fabric::pair_routing();
  }
  bool flowlets() const { return shape_.hash.flowlet.value > 0; }
  bool joins_rails() const override { return shape_.joined; }
  bool has_top() const override { return shape_.joined && !shape_.hashed; }
  bool is_by_rails() const { return shape_.rails; }
  bool leaves_out(const RemovedPart& out) const override { return !shape_.hashed && between_switches(out); }
  std::vector<FabricRow> rows(const DeviceGraph& graph, const ClusterSpec& spec) const override {
    return level_rows(FabricView(graph, spec));
  }

  /// See pods.hpp.
  int nodes_of_pod(const ClusterSpec& spec) const {
    if (shape_.hashed || !spec.taken_out.empty() || !spec.others.empty() || spec.node.hcas == 0) return 0;
    if (shape_.rails && shape_.levels.size() > 1) return 0;
    const std::int64_t ports = shape_.rails ? 1 : spec.node.hcas;  // a node has one port on the leaves of each rail
    std::int64_t pod = 0, below = 1;
    for (const FabricLevel& level : shape_.levels) {
      below *= level.down;
      if (below >= ports * spec.nodes) break;
      pod = below;
    }
    return pod % ports == 0 ? static_cast<int>(pod / ports) : 0;
  }

  void build(DeviceGraph& graph, const ClusterSpec& spec) const override {
    if (shape_.joined || spec.nodes > shape_.levels.front().down)
      require_ports(shape_.levels, spec);
    else if (spec.switch_ports > 0 && spec.nodes > spec.switch_ports)  // a rail is one switch without uplinks
      fail(spec.fabric_place, fmt::format("a rail of {}, but the switch has {}", counted_noun(spec.nodes, "node"),
                                          counted_noun(spec.switch_ports, "port")));
    const std::vector<DeviceId> ports =
        shape_.rails ? hcas_by_rail(graph, spec, shape_.levels.front().down) : fabric_hcas(graph, spec);
    if (!shape_.joined) require_equal_rails(spec);
    const bool must_be_whole = shape_.hashed || std::ranges::any_of(spec.taken_out, between_switches);
    const ClosShape clos(shape_.levels, static_cast<int>(ports.size()), must_be_whole, spec.fabric_place);
    if (shape_.hashed)
      build_hashed_clos(graph, spec, clos, ports, link_rate(spec), shape_.hash);
    else
      build_sprayed(graph, spec, clos, ports);
  }

 private:
  FoldedClosShape shape_;

  std::string pairs_text(const char* lead) const {
    return shape_.hash.queue_pairs > 1 ? fmt::format("{}{} queue pairs", lead, shape_.hash.queue_pairs) : "";
  }
  BytesPerSecond link_rate(const ClusterSpec& spec) const {
    return shape_.link_rate.value > 0 ? shape_.link_rate : fastest_port(spec);
  }
  void build_sprayed(DeviceGraph&, const ClusterSpec&, const ClosShape&, const std::vector<DeviceId>& ports) const;
  static void require_equal_rails(const ClusterSpec& spec) {
    if (!spec.others.empty())
      fail(spec.fabric_place, "joined: false: nodes of one type expected, because their rails must be alike");
    for (const RemovedPart& out : spec.taken_out)
      if (between_switches(out))
        fail(out.place, fmt::format("cluster.taken_out: \"{}\": with rails that are not joined, only cables and "
                                    "devices of nodes can be taken out",
                                    out.name));
  }
};

/// Builds the fabric for ideal spraying: every message spreads evenly over all uplinks that lead to its target. The
/// uplinks of a switch, or of a group of equal switches, then carry the same load, and one edge with their summed rate
/// stands for them exactly. If switches or uplinks are removed, the edge has the rate of those that are left. This is
/// exact for the total load that a group sends. Not modelled: two groups that lack different planes can reach each
/// other only over the planes of both.
void FoldedClosFabric::build_sprayed(DeviceGraph& graph, const ClusterSpec& spec, const ClosShape& clos,
                                     const std::vector<DeviceId>& ports) const {
  static constexpr const char* kGroups[] = {"leaf", "pod", "zone", "hall"};
  const TakenUplinks removed(clos, spec);
  BytesPerSecond rate = link_rate(spec);
  std::vector<DeviceId> below = ports;
  // Rails that are not joined: each has a top of its own, unless it has a single leaf.
  const int rails = shape_.joined ? 1 : std::max(1, spec.node.hcas), leaves_of_rail = clos.groups(0) / rails;
  for (int l = 0; l < clos.levels(); ++l) {
    std::vector<DeviceId> groups;
    const bool tops = !shape_.joined && l > 0;
    if (tops && leaves_of_rail == 1) break;
    for (int g = 0; g < (tops ? rails : clos.groups(l)); ++g) {
      const bool joins_all = clos.uplinks(l) == 0 && !tops;
      const std::string name = tops        ? fmt::format("rail{}", g)
                               : joins_all ? (l == 1 ? "spines" : "core")
                                           : fmt::format("{}{}", kGroups[l], g);
      groups.push_back(graph.add(fabric_switch(spec, name, g)));
    }
    for (std::size_t i = 0; i < below.size(); ++i) {
      const auto group = static_cast<int>(i) / (tops ? leaves_of_rail : clos.down(l));
      const DeviceId above = groups[group];
      if (l == 0) {
        if (below[i] >= 0 && removed.has_leaf(group))
          graph.connect(below[i], above, hca_wire(spec, graph.devices()[below[i]].node));
        continue;
      }
      const double share = removed.none() ? 1 : removed.share(l - 1, static_cast<int>(i));
      if (share > 0) graph.connect(below[i], above, {LinkKind::uplink, rate * share, spec.switch_latency});
    }
    if (l + 1 < clos.levels()) {  // the rate that a full group could send up, even if its last ports are unused
      const FabricLevel& level = shape_.levels[l];
      rate = rate * level.down / level.oversubscription;
    }
    below = std::move(groups);
  }
  if (!shape_.joined) add_border(graph, spec, below);
  graph.set_router(tree_router(graph));
}

/// Reads `oversubscription` beside the levels: that of the leaves, where a fabric is usually oversubscribed. In a
/// scenario it replaces the figure of the catalog's entry. Two figures for one level in one file are refused.
void read_leaf_oversubscription(Fields& fields, const Node& leaves, FabricLevel& leaf) {
  fields.read("oversubscription", leaf.oversubscription, kLeastRatio, kMostRatio);
  const Node* stated = leaves.find("oversubscription");
  if (!stated || !fields.has("oversubscription")) return;
  const Place place = fields.place_of("oversubscription");
  if (place.line > 0 && stated->place.file && place.file && *stated->place.file == *place.file)
    fail(place, fields.what() + ": oversubscription: the first level states one too; expected only one of the two");
}

/// Keys: `levels: [{down: 32, oversubscription: 2}, …]` from the hosts up, `oversubscription` of the first level,
/// `rails`, `joined: false` for rails that no switch joins, `link_rate` between switches (default: that of the fastest
/// HCA), `routing: spray | ecmp | adaptive | flowlets`, the size of a `flowlet`, the `seed` of the hash, and `queue_pairs` between two HCAs, over which NCCL
/// splits each message (NCCL_IB_QPS_PER_CONNECTION, NCCL_IB_SPLIT_DATA_ON_QPS).
std::shared_ptr<const Fabric> read_folded_clos(Fields& fields) {
  const Node& levels = fields.required_child("levels");
  if (levels.kind != Node::Kind::list || levels.items.empty() || levels.items.size() > 4)
    fail(levels.place,
         fields.what() + ": levels: expected a list of one to four levels, such as [{down: 32, oversubscription: 2}]");
  FoldedClosShape shape;
  for (const Node& item : levels.items) {
    Fields level(item, fields.what() + ": level");
    FabricLevel l;
    l.down = level.integer_within<int>("down", 1, 1 << 20);
    l.oversubscription = level.number("oversubscription", kLeastRatio, kMostRatio, 1.0);
    level.finish();
    shape.levels.push_back(l);
  }
  read_leaf_oversubscription(fields, levels.items.front(), shape.levels.front());
  shape.rails = fields.boolean("rails", false);
  shape.joined = fields.boolean("joined", true);
  shape.link_rate = fields.bandwidth("link_rate", BytesPerSecond{0});
  const std::string routing = fields.choice("routing", {"spray", "ecmp", "adaptive", "flowlets"}, "spray");
  shape.hash.adaptive = routing == "adaptive" || routing == "flowlets";
  // Half of the bytes of data centres lie in flowlets of at most 500 kB (Alizadeh et al. 2014, Figure 5, gaps of 500 us).
  constexpr Bytes kFlowlet{500e3};
  const Bytes flowlet = fields.bytes("flowlet", kFlowlet);
  fields.require_condition("flowlet", routing == "flowlets", "with routing flowlets");
  if (routing == "flowlets") shape.hash.flowlet = flowlet;
  shape.hashed = routing != "spray";
  shape.hash.seed = fields.integer<std::uint64_t>("seed", 0, 1);
  fields.require_condition("seed", shape.hashed, "with routing ecmp, adaptive or flowlets");
  constexpr int kMostQueuePairs = 128;  // NCCL's limit, NVIDIA/nccl, src/transport/net_ib.cc
  shape.hash.queue_pairs = fields.integer_within<int>("queue_pairs", 1, kMostQueuePairs, 1);
  if (shape.hash.queue_pairs > 1 && routing != "ecmp")
    fail(fields.place_of("queue_pairs"),
         fmt::format(
             "{}: queue_pairs: {}; expected routing: ecmp beside it", fields.what(),
             shape.hashed ? "adaptive routing chooses a path for each message" : "sprayed messages take all paths"));
  if (!shape.joined && (!shape.rails || shape.hashed || shape.levels.size() > 1))
    fail(fields.place_of("joined"),
         fields.what() + ": joined: false: expected rails: true beside it, one level, and routing: spray");
  return std::make_shared<FoldedClosFabric>(std::move(shape));
}

const Registration<FabricReader> registered_folded_clos{fabric_types(), "folded-clos", read_folded_clos};

}  // namespace
int nodes_of_pod(const ClusterSpec& spec) {
  const auto* clos = dynamic_cast<const FoldedClosFabric*>(spec.fabric.get());
  return clos ? clos->nodes_of_pod(spec) : 0;
}

bool is_by_rails(const ClusterSpec& spec) {
  const auto* clos = dynamic_cast<const FoldedClosFabric*>(spec.fabric.get());
  return clos && clos->is_by_rails();
}

}  // namespace trainyard
