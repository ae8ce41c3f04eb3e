#include <fmt/format.h>

#include <algorithm>

#include "sim/hashing.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

/// `hosts_a_switch`, `switches_a_group`, `global_links` (of each switch), `link_rate`, `global_rate`, `routing: minimal
/// | valiant` and its `seed`.
void read_dragonfly(ClusterSpec& spec, Fields& fields) {
  constexpr std::int64_t most = 4096;
  const auto count = [&](const char* key, std::int64_t fallback) {
    const std::int64_t v = fallback > 0 ? fields.integer(key, 1, fallback) : fields.integer(key, 1);
    if (v > most) fail(fields.place_of(key), fmt::format("{}.{}: {}; at most {}", fields.what(), key, v, most));
    return static_cast<int>(v);
  };
  FabricShape& s = spec.shape;
  s.switches_a_group = count("switches_a_group", 0);
  // Balanced (Kim et al. 2008): half as many hosts, and global links, as switches in a group.
  s.hosts_a_switch = count("hosts_a_switch", std::max(1, s.switches_a_group / 2));
  s.global_links = count("global_links", std::max(1, s.switches_a_group / 2));
  s.link_rate = fields.bandwidth("link_rate", BytesPerSecond{0});
  s.global_rate = fields.bandwidth("global_rate", s.link_rate);
  s.valiant = fields.choice("routing", {"minimal", "valiant"}, "minimal") == "valiant";
  s.seed = static_cast<std::uint64_t>(fields.integer("seed", 0, 1));
}

/// Hosts to switches, switches of a group all to all, and each pair of groups by as many global links as there are.
class DragonflyRouter : public FabricRouter {
 public:
  int switches = 0, groups = 0;  // switches: of a group
  bool valiant = false;
  std::uint64_t seed = 1;
  struct Global {
    int out = 0, in = 0;  // switches at its ends, counted within their groups
    LinkId wire = 0;
  };
  std::vector<int> switch_of;                // by device, −1: none
  std::vector<LinkId> into;                  // by device
  std::vector<std::vector<LinkId>> local;    // by group: switch · switches + switch
  std::vector<std::vector<Global>> globals;  // by group · groups + group

  bool way(const DeviceGraph& graph, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const override {
    const int a = at(from), b = at(to);
    if (a < 0 || b < 0) return false;
    const std::uint64_t hash = hashed({seed, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to)});
    wires.push_back(into[static_cast<std::size_t>(from)]);
    int where = a;
    const int ours = a / switches, theirs = b / switches;
    if (valiant && groups > 2 && ours != theirs) {
      int third = static_cast<int>(hash % static_cast<std::uint64_t>(groups - 2));
      for (const int taken : {std::min(ours, theirs), std::max(ours, theirs)}) third += third >= taken ? 1 : 0;
      if (!to_group(graph, where, third, mixed(hash), wires)) return false;
    }
    if (!to_group(graph, where, theirs, hash, wires)) return false;
    if (where != b) wires.push_back(local_wire(where, b));
    wires.push_back(into[static_cast<std::size_t>(to)] ^ 1);
    return true;
  }

 private:
  int at(DeviceId device) const {
    return static_cast<std::size_t>(device) < switch_of.size() ? switch_of[static_cast<std::size_t>(device)] : -1;
  }
  LinkId local_wire(int from, int to) const {
    return local[static_cast<std::size_t>(from / switches)]
                [static_cast<std::size_t>(from % switches * switches + to % switches)];
  }
  /// By a global link of our own switch if there is one, else by that which the hash chooses; one that is down is
  /// passed over.
  bool to_group(const DeviceGraph& graph, int& where, int group, std::uint64_t hash, std::vector<LinkId>& wires) const {
    const int here = where / switches;
    if (here == group) return true;
    const std::vector<Global>& all = globals[static_cast<std::size_t>(here * groups + group)];
    if (all.empty()) return false;
    const Global* chosen = nullptr;
    for (std::size_t i = 0; i < all.size() && !chosen; ++i)
      if (all[i].out == where % switches && graph.is_up(all[i].wire)) chosen = &all[i];
    for (std::size_t i = 0; i < all.size() && !chosen; ++i) {
      const Global& next = all[(hash + i) % all.size()];
      if (graph.is_up(next.wire)) chosen = &next;
    }
    if (!chosen) return false;
    if (chosen->out != where % switches) wires.push_back(local_wire(where, here * switches + chosen->out));
    wires.push_back(chosen->wire);
    where = group * switches + chosen->in;
    return true;
  }
};

void join_groups(DeviceGraph& graph, const ClusterSpec& spec, DragonflyRouter& router, DeviceId first,
                 BytesPerSecond rate) {
  const int a = router.switches, groups = router.groups;
  router.globals.resize(static_cast<std::size_t>(groups * groups));
  const int ports = a * spec.shape.global_links;  // of a group
  if (groups - 1 > ports)
    fail(spec.shape.place,
         fmt::format("a dragonfly of {} groups needs {} global links a group, but has {} ({} switches of {})", groups,
                     groups - 1, ports, a, spec.shape.global_links));
  const int between = groups > 1 ? ports / (groups - 1) : 0;
  // Port k of a group leads to the group k + 1 further on: all ports of a switch go to different groups first.
  for (int from = 0; from < groups; ++from)
    for (int to = from + 1; to < groups; ++to)
      for (int l = 0; l < between; ++l) {
        const int out = ((to - from - 1) + l * (groups - 1)) / spec.shape.global_links;
        const int in = ((from - to - 1 + groups) + l * (groups - 1)) / spec.shape.global_links;
        const auto wire = static_cast<LinkId>(graph.wires().size());
        graph.connect(first + from * a + out, first + to * a + in, {"uplink", rate, spec.switch_latency});
        router.globals[static_cast<std::size_t>(from * groups + to)].push_back({out, in, wire});
        router.globals[static_cast<std::size_t>(to * groups + from)].push_back({in, out, wire ^ 1});
      }
}

/// Kim, Dally, Scott & Abts 2008, "Technology-Driven, Highly-Scalable Dragonfly Topology".
void build_dragonfly(DeviceGraph& graph, const ClusterSpec& spec) {
  const FabricShape& shape = spec.shape;
  const std::vector<DeviceId> hcas = graph.all(DeviceKind::hca);
  const int hosts_a_group = shape.hosts_a_switch * shape.switches_a_group;
  const int groups = (static_cast<int>(hcas.size()) + hosts_a_group - 1) / hosts_a_group, a = shape.switches_a_group;
  const BytesPerSecond rate = fabric_link_rate(spec);
  const auto first = static_cast<DeviceId>(graph.devices().size());
  for (int s = 0; s < groups * a; ++s)
    graph.add({fmt::format("group{}.{}", s / a, s % a), DeviceKind::network_switch, -1, s});
  auto router = std::make_unique<DragonflyRouter>();
  router->switches = a;
  router->groups = groups;
  router->valiant = shape.valiant;
  router->seed = shape.seed;
  router->switch_of.assign(static_cast<std::size_t>(first), -1);
  router->into.assign(static_cast<std::size_t>(first), -1);
  for (std::size_t i = 0; i < hcas.size(); ++i) {
    const int at = static_cast<int>(i) / shape.hosts_a_switch;
    router->switch_of[static_cast<std::size_t>(hcas[i])] = at;
    router->into[static_cast<std::size_t>(hcas[i])] = static_cast<LinkId>(graph.wires().size());
    graph.connect(hcas[i], first + at, hca_wire(spec, graph.devices()[static_cast<std::size_t>(hcas[i])].node));
  }
  for (int g = 0; g < groups; ++g) {
    std::vector<LinkId>& wires = router->local.emplace_back(static_cast<std::size_t>(a * a), -1);
    for (int s = 0; s < a; ++s)
      for (int t = s + 1; t < a; ++t) {
        const auto wire = static_cast<LinkId>(graph.wires().size());
        graph.connect(first + g * a + s, first + g * a + t, {"uplink", rate, spec.switch_latency});
        wires[static_cast<std::size_t>(s * a + t)] = wire;
        wires[static_cast<std::size_t>(t * a + s)] = wire ^ 1;
      }
  }
  join_groups(graph, spec, *router, first, shape.global_rate.value > 0 ? shape.global_rate : rate);
  graph.set_router(std::move(router));
}

const RegisterBuilder<FabricBuilder> registered_dragonfly{
    fabric_builders(), "dragonfly", {build_dragonfly, read_dragonfly}};

}  // namespace
}  // namespace trainyard
