#include <fmt/format.h>

#include <algorithm>

#include "sim/hashing.hpp"
#include "sim/index.hpp"
#include "topologies/build_size.hpp"
#include "topologies/cluster.hpp"
#include "topologies/fabrics/fabric_rows.hpp"

namespace trainyard {
namespace {

struct DragonflyShape {
  int hosts_a_switch = 0, switches_a_group = 0;
  int global_links = 0;  // global links of each switch
  bool valiant = false;  // through a random third group (Valiant 1982)
  std::uint64_t seed = 1;
  // In each direction; 0: as fast as the fastest HCA, or as fast as the other links.
  BytesPerSecond link_rate, global_rate;
};

/// Routes from a host to its switch, between all switches of a group, and between each pair of groups over its global
/// links.
class DragonflyRouter : public FabricRouter {
 public:
  /// `first`: see first_device in cluster.hpp.
  DragonflyRouter(const DragonflyShape& shape, int group_count, DeviceId first)
      : switches(shape.switches_a_group),
        groups(group_count),
        valiant(shape.valiant),
        seed(shape.seed),
        first_id(first) {}
  const int switches, groups;  // `switches`: number of switches of one group
  const bool valiant;
  const std::uint64_t seed;
  const DeviceId first_id;
  struct Global {
    int out = 0, in = 0;  // switches at its ends, numbered within their groups
    LinkId wire = 0;
  };
  std::vector<int> switch_of;                // indexed by device; −1: none
  std::vector<LinkId> into;                  // indexed by device: its wire to its switch
  DeviceId border = -1;                      // −1: there is none
  std::vector<LinkId> to_border;             // indexed by switch
  std::vector<std::vector<LinkId>> local;    // indexed by group: switch · switches + switch
  std::vector<std::vector<Global>> globals;  // indexed by group · groups + group

  bool path(const DeviceGraph& graph, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const override {
    const int a = switch_of_device(from), b = switch_of_device(to);
    if (border >= 0 && (from == border ? b >= 0 : to == border && a >= 0)) {
      if (from == border)
        wires.insert(wires.end(), {to_border[b] ^ 1, into[to] ^ 1});
      else
        wires.insert(wires.end(), {into[from], to_border[a]});
      return true;
    }
    if (a < 0 || b < 0) return false;
    const std::uint64_t hash =
        hash_numbers({seed, static_cast<std::uint64_t>(from - first_id), static_cast<std::uint64_t>(to - first_id)});
    wires.push_back(into[from]);
    int present = a;
    const int ours = a / switches, theirs = b / switches;
    if (valiant && groups > 2 && ours != theirs) {
      int third = static_cast<int>(hash % static_cast<std::uint64_t>(groups - 2));
      for (const int excluded : {std::min(ours, theirs), std::max(ours, theirs)}) third += third >= excluded ? 1 : 0;
      if (!to_group(graph, present, third, mix_bits(hash), wires)) return false;
    }
    if (!to_group(graph, present, theirs, hash, wires)) return false;
    if (present != b) wires.push_back(local_wire(present, b));
    wires.push_back(into[to] ^ 1);
    return true;
  }

 private:
  int switch_of_device(DeviceId device) const {
    return static_cast<std::size_t>(device) < switch_of.size() ? switch_of[device] : -1;
  }
  LinkId local_wire(int from, int to) const {
    return local[from / switches][from % switches * switches + to % switches];
  }
  /// Takes a global link of the present switch if there is one, otherwise the one that the hash chooses. Skips links
  /// that are down.
  bool to_group(const DeviceGraph& graph, int& present, int group, std::uint64_t hash,
                std::vector<LinkId>& wires) const {
    const int here_group = present / switches;
    if (here_group == group) return true;
    const std::vector<Global>& all = globals[here_group * groups + group];
    if (all.empty()) return false;
    const Global* chosen = nullptr;
    for (std::size_t i = 0; i < all.size() && !chosen; ++i)
      if (all[i].out == present % switches && graph.is_up(all[i].wire)) chosen = &all[i];
    for (std::size_t i = 0; i < all.size() && !chosen; ++i) {
      const Global& next = all[(hash + i) % all.size()];
      if (graph.is_up(next.wire)) chosen = &next;
    }
    if (!chosen) return false;
    if (chosen->out != present % switches) wires.push_back(local_wire(present, here_group * switches + chosen->out));
    wires.push_back(chosen->wire);
    present = group * switches + chosen->in;
    return true;
  }
};

/// Groups of switches: all to all within a group, and global links between each pair of groups (Kim, Dally, Scott &
/// Abts 2008, "Technology-Driven, Highly-Scalable Dragonfly Topology").
class DragonflyFabric : public Fabric {
 public:
  explicit DragonflyFabric(const DragonflyShape& shape) : shape_(shape) {}

  std::string type() const override { return "dragonfly"; }
  std::vector<LinkKind> link_kinds() const override { return {LinkKind::hca, LinkKind::uplink}; }
  bool has_levels() const override { return false; }
  BytesPerSecond slowest_stated_link() const override {
    const bool both = shape_.link_rate.value > 0 && shape_.global_rate.value > 0;
    return both ? std::min(shape_.link_rate, shape_.global_rate) : std::max(shape_.link_rate, shape_.global_rate);
  }
  std::string routing() const override {
    return shape_.valiant ? fmt::format("through a third group (Valiant), seed {}", shape_.seed)
                          : "minimal: at most one global link";
  }
  std::string pair_routing() const override {
    return shape_.valiant ? fmt::format("Valiant by a hashed third group, seed {}", shape_.seed) : "minimal";
  }
  std::vector<FabricRow> rows(const DeviceGraph& graph, const ClusterSpec& spec) const override {
    const FabricView view(graph, spec);
    const int a = shape_.switches_a_group;
    const std::vector<CableCount> cables = count_cables(view, 3, [&view, a](DeviceId x, DeviceId y) {
      if (is_border(view, x) || is_border(view, y)) return -1;
      if (!is_switch(view, x) || !is_switch(view, y)) return 0;
      return index_of(view, x) / a == index_of(view, y) / a ? 1 : 2;
    });
    std::vector<FabricRow> rows{{fmt::format("{} groups of {} switches", groups(view.ends.size()), a),
                                 fmt::format("{}; {}", cables[0].text("to HCAs"), cables[1].text("within groups")), ""},
                                {"global links", cables[2].text("between groups"), ""}};
    add_border_row(view, rows);
    return rows;
  }
  void build(DeviceGraph&, const ClusterSpec&) const override;

 private:
  DragonflyShape shape_;

  int groups(std::size_t hosts) const {
    const auto hosts_a_group = static_cast<std::size_t>(shape_.hosts_a_switch * shape_.switches_a_group);
    return static_cast<int>((hosts + hosts_a_group - 1) / hosts_a_group);
  }
  BytesPerSecond link_rate(const ClusterSpec& spec) const {
    return shape_.link_rate.value > 0 ? shape_.link_rate : fastest_port(spec);
  }
  void join_hosts(DeviceGraph&, const ClusterSpec&, DragonflyRouter&, DeviceId first) const;
  void join_switches(DeviceGraph&, const Wire&, DragonflyRouter&, DeviceId first) const;
  void require_groups(int groups, const Place&) const;
  void join_groups(DeviceGraph&, const Wire&, DragonflyRouter&, DeviceId first) const;
};

void DragonflyFabric::join_hosts(DeviceGraph& graph, const ClusterSpec& spec, DragonflyRouter& router,
                                 DeviceId first) const {
  router.switch_of.assign(static_cast<std::size_t>(first), -1);
  router.into.assign(static_cast<std::size_t>(first), -1);
  int host = 0;
  for (const DeviceId hca : fabric_hcas(graph, spec)) {
    const int switch_number = host++ / shape_.hosts_a_switch;
    router.switch_of[hca] = switch_number;
    router.into[hca] = graph.connect(hca, first + switch_number, hca_wire(spec, graph.devices()[hca].node));
  }
}

void DragonflyFabric::join_switches(DeviceGraph& graph, const Wire& cable, DragonflyRouter& router,
                                    DeviceId first) const {
  const int a = router.switches;
  for (int g = 0; g < router.groups; ++g) {
    std::vector<LinkId>& wires = router.local.emplace_back(static_cast<std::size_t>(a * a), -1);
    for (int s = 0; s < a; ++s)
      for (int t = s + 1; t < a; ++t) {
        const LinkId wire = graph.connect(first + g * a + s, first + g * a + t, cable);
        wires[s * a + t] = wire;
        wires[t * a + s] = wire ^ 1;
      }
  }
}

void DragonflyFabric::join_groups(DeviceGraph& graph, const Wire& cable, DragonflyRouter& router,
                                  DeviceId first) const {
  const int a = router.switches, groups = router.groups;
  router.globals.resize(static_cast<std::size_t>(groups * groups));
  const int ports = a * shape_.global_links;  // global ports of a group
  const int between = groups > 1 ? ports / (groups - 1) : 0;
  // Port k of a group leads to the group k + 1 further on: all ports of a switch lead to different groups first.
  for (int from = 0; from < groups; ++from)
    for (int to = from + 1; to < groups; ++to)
      for (int l = 0; l < between; ++l) {
        const int out = ((to - from - 1) + l * (groups - 1)) / shape_.global_links;
        const int in = ((from - to - 1 + groups) + l * (groups - 1)) / shape_.global_links;
        const LinkId wire = graph.connect(first + from * a + out, first + to * a + in, cable);
        router.globals[from * groups + to].push_back({out, in, wire});
        router.globals[to * groups + from].push_back({in, out, wire ^ 1});
      }
}

/// Throws UserError if the global links of a group do not reach all other groups, or if the dragonfly is too large.
void DragonflyFabric::require_groups(int groups, const Place& place) const {
  const int a = shape_.switches_a_group, ports = a * shape_.global_links;
  if (groups - 1 > ports)
    fail(place, fmt::format("a dragonfly of {} groups needs {} global links a group, but has {} ({} switches of {})",
                            groups, groups - 1, ports, a, shape_.global_links));
  const double count = groups;
  require_buildable({count * a, count * a * (a - 1) / 2 + (groups > 1 ? count * ports / 2 : 0)},
                    fmt::format("a dragonfly of {} groups", groups), place);
}

void DragonflyFabric::build(DeviceGraph& graph, const ClusterSpec& spec) const {
  const int a = shape_.switches_a_group;
  auto router =
      std::make_unique<DragonflyRouter>(shape_, groups(fabric_hcas(graph, spec).size()), first_device(graph, spec));
  require_groups(router->groups, spec.fabric_place);
  const auto first = static_cast<DeviceId>(graph.devices().size());
  for (int s = 0; s < router->groups * a; ++s)
    graph.add(fabric_switch(spec, fmt::format("group{}.{}", s / a, s % a), s));
  join_hosts(graph, spec, *router, first);
  const Wire local{LinkKind::uplink, link_rate(spec), spec.switch_latency};
  Wire global = local;
  if (shape_.global_rate.value > 0) global.rate = shape_.global_rate;
  join_switches(graph, local, *router, first);
  join_groups(graph, global, *router, first);
  router->to_border = add_border(graph, spec, consecutive_numbers(first, router->groups * a));
  if (!router->to_border.empty()) router->border = static_cast<DeviceId>(graph.devices().size()) - 1;
  graph.set_router(std::move(router));
}

/// Keys: `hosts_a_switch`, `switches_a_group`, `global_links` (of each switch), `link_rate`, `global_rate`, `routing:
/// minimal | valiant` and its `seed`.
std::shared_ptr<const Fabric> read_dragonfly(Fields& fields) {
  constexpr int most = 4096;
  DragonflyShape s;
  s.switches_a_group = fields.integer_within("switches_a_group", 1, most);
  // Balanced (Kim et al. 2008): half as many hosts, and half as many global links, as switches in a group.
  s.hosts_a_switch = fields.integer_within("hosts_a_switch", 1, most, std::max(1, s.switches_a_group / 2));
  s.global_links = fields.integer_within("global_links", 1, most, std::max(1, s.switches_a_group / 2));
  s.link_rate = fields.bandwidth("link_rate", BytesPerSecond{0});
  s.global_rate = fields.bandwidth("global_rate", s.link_rate);
  s.valiant = fields.choice("routing", {"minimal", "valiant"}, "minimal") == "valiant";
  s.seed = fields.integer<std::uint64_t>("seed", 0, 1);
  fields.require_condition("seed", s.valiant, "with routing valiant");
  return std::make_shared<DragonflyFabric>(s);
}

const Registration<FabricReader> registered_dragonfly{fabric_types(), "dragonfly", read_dragonfly};

}  // namespace
}  // namespace trainyard
