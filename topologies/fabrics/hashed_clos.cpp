#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "sim/hashing.hpp"
#include "sim/index.hpp"
#include "topologies/fabrics/clos_shape.hpp"

namespace trainyard {
namespace {

/// Static ECMP (RFC 2992): the hash of a pair of HCAs and the number of the queue pair fix the uplink at every level; the
/// way down from the top follows from it. If a wire of the path is down, the next choice is taken. With adaptive routing
/// the hash only orders the paths among which messages choose: at most `kMostChoices` of them.
class HashedClosRouter : public FabricRouter {
 public:
  /// `first_device`: see cluster.hpp.
  HashedClosRouter(ClosShape shape, const RouteHash& hash, DeviceId first_device)
      : shape_(std::move(shape)), hash_(hash), first_device_(first_device) {
    up_.resize(static_cast<std::size_t>(shape_.levels()));
  }
  void add_hca(DeviceId hca, int port, LinkId wire) { hcas_.emplace(hca, Hca{port, wire}); }
  /// `wires`: from each switch at the top, in order.
  void add_border(DeviceId border, std::vector<LinkId> wires) {
    border_ = border;
    to_border_ = std::move(wires);
  }
  void add_uplink(int level, LinkId wire) { up_[level].push_back(wire); }

  bool path(const DeviceGraph& graph, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const override {
    return flow_path(graph, from, to, 0, wires);
  }
  int flows() const override { return hash_.queue_pairs; }
  bool flow_path(const DeviceGraph& graph, DeviceId from, DeviceId to, int flow,
                 std::vector<LinkId>& wires) const override {
    const std::optional<Ways> ways = ways_between(from, to);
    if (!ways) return false;
    const std::uint64_t first = first_of(from, to, flow) % ways->choices;
    for (std::uint64_t i = 0; i < ways->choices; ++i)
      if (take(graph, *ways, (first + i) % ways->choices, wires)) return true;
    return false;
  }

  bool chooses_paths() const override { return hash_.adaptive; }
  Bytes flowlet(DeviceId, DeviceId) const override { return hash_.flowlet; }
  int choices(DeviceId from, DeviceId to) const override {
    const std::optional<Ways> ways = ways_between(from, to);
    return hash_.adaptive && ways ? static_cast<int>(std::min(kMostChoices, ways->choices)) : 1;
  }
  bool choice(const DeviceGraph& graph, DeviceId from, DeviceId to, int number,
              std::vector<LinkId>& wires) const override {
    const Ways ways = *ways_between(from, to);
    // If there are more choices, they are spread evenly. The stride and the number of ways have no common factor, so
    // that the choices differ, and take all uplinks of the leaf in turn.
    std::uint64_t stride = ways.choices <= kMostChoices ? 1 : ways.choices / kMostChoices;
    while (std::gcd(stride, ways.choices) > 1) ++stride;
    const std::uint64_t chosen = (first_of(from, to, 0) + static_cast<std::uint64_t>(number) * stride) % ways.choices;
    return take(graph, ways, chosen, wires);
  }

 private:
  static constexpr std::uint64_t kMostChoices = 64;
  struct Hca {
    int number = 0;
    LinkId wire = 0;  // to its leaf
  };
  /// The ways from one HCA to another, or between an HCA and the border switch.
  struct Ways {
    const Hca *from = nullptr, *to = nullptr;  ///< null: the border switch
    int top = 0;                               ///< the level at which both are in one group
    std::uint64_t choices = 1;
  };
  /// No value: one of them is no end of this fabric.
  std::optional<Ways> ways_between(DeviceId from, DeviceId to) const {
    const auto a = hcas_.find(from), b = hcas_.find(to);
    Ways ways{a == hcas_.end() ? nullptr : &a->second, b == hcas_.end() ? nullptr : &b->second};
    if ((!ways.from && (from != border_ || !ways.to)) || (!ways.to && to != border_)) return std::nullopt;
    int group_a = ways.from ? ways.from->number / shape_.down(0) : -1,
        group_b = ways.to ? ways.to->number / shape_.down(0) : -1;
    const bool to_top = !ways.from || !ways.to;
    for (; to_top ? ways.top + 1 < shape_.levels() : group_a != group_b; ++ways.top) {
      ways.choices *= static_cast<std::uint64_t>(shape_.uplinks(ways.top));
      group_a /= shape_.down(ways.top + 1);
      group_b /= shape_.down(ways.top + 1);
    }
    return ways;
  }
  std::uint64_t first_of(DeviceId from, DeviceId to, int flow) const {
    const std::uint64_t first = hash_numbers(
        {hash_.seed, static_cast<std::uint64_t>(from - first_device_), static_cast<std::uint64_t>(to - first_device_)});
    return flow > 0 ? hash_numbers({first, static_cast<std::uint64_t>(flow)}) : first;
  }
  ClosShape shape_;
  RouteHash hash_;
  DeviceId first_device_;
  std::map<DeviceId, Hca> hcas_;
  std::vector<std::vector<LinkId>> up_;  // indexed by level: (group · planes + plane) · uplinks + uplink
  DeviceId border_ = -1;                 // −1: there is none
  std::vector<LinkId> to_border_;        // indexed by plane of the top

  LinkId uplink(int level, int group, int plane, int port) const {
    const auto uplinks = static_cast<int>(shape_.uplinks(level));
    return up_[level][(position(group) * position(shape_.planes(level)) + position(plane)) * position(uplinks) +
                      position(port)];
  }

  /// Appends the path for one choice of uplinks. Returns false, without appending, if one of its wires is down.
  bool take(const DeviceGraph& graph, const Ways& ways, std::uint64_t choice, std::vector<LinkId>& wires) const {
    std::vector<LinkId> up, down;
    int plane = 0, group_a = 0, group_b = 0;
    if (ways.from) {
      up.push_back(ways.from->wire);
      group_a = ways.from->number / shape_.down(0);
    }
    if (ways.to) {
      down.push_back(ways.to->wire ^ 1);
      group_b = ways.to->number / shape_.down(0);
    }
    for (int level = 0; level < ways.top; ++level) {
      const auto uplinks = static_cast<std::uint64_t>(shape_.uplinks(level));
      const auto port = static_cast<int>(choice % uplinks);
      choice /= uplinks;
      if (ways.from) up.push_back(uplink(level, group_a, plane, port));
      if (ways.to) down.push_back(uplink(level, group_b, plane, port) ^ 1);
      plane = plane * static_cast<int>(uplinks) + port;
      group_a /= shape_.down(level + 1);
      group_b /= shape_.down(level + 1);
    }
    if (!ways.to) up.push_back(to_border_[position(plane)]);
    if (!ways.from) up.push_back(to_border_[position(plane)] ^ 1);
    up.insert(up.end(), down.rbegin(), down.rend());
    if (!std::ranges::all_of(up, [&graph](LinkId wire) { return graph.is_up(wire); })) return false;
    wires.insert(wires.end(), up.begin(), up.end());
    return true;
  }
};

}  // namespace

void build_hashed_clos(DeviceGraph& graph, const ClusterSpec& spec, const ClosShape& shape,
                       const std::vector<DeviceId>& ports, BytesPerSecond link_rate, const RouteHash& hash) {
  auto router = std::make_unique<HashedClosRouter>(shape, hash, first_device(graph, spec));
  std::vector<DeviceId> first;  // first switch of each level
  for (int l = 0; l < shape.levels(); ++l)
    for (int g = 0; g < shape.groups(l); ++g)
      for (int p = 0; p < shape.planes(l); ++p) {
        const DeviceId id = graph.add(fabric_switch(spec, shape.name(l, g, p), g * shape.planes(l) + p));
        if (g == 0 && p == 0) first.push_back(id);
      }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i] < 0) continue;
    const DeviceId leaf = first[0] + static_cast<DeviceId>(i) / shape.down(0);
    const LinkId wire = graph.connect(ports[i], leaf, hca_wire(spec, graph.devices()[ports[i]].node));
    router->add_hca(ports[i], static_cast<int>(i), wire);
  }
  for (int l = 0; l + 1 < shape.levels(); ++l)
    for (int g = 0; g < shape.groups(l); ++g)
      for (int p = 0; p < shape.planes(l); ++p)
        for (int j = 0; j < static_cast<int>(shape.uplinks(l)); ++j) {
          const int above = g / shape.down(l + 1) * shape.planes(l + 1) + p * static_cast<int>(shape.uplinks(l)) + j;
          router->add_uplink(l, graph.connect(first[l] + g * shape.planes(l) + p, first[position(l + 1)] + above,
                                              {LinkKind::uplink, link_rate, spec.switch_latency}));
        }
  std::vector<DeviceId> top;
  for (int p = 0; p < shape.planes(shape.levels() - 1); ++p) top.push_back(first.back() + p);
  if (std::vector<LinkId> wires = add_border(graph, spec, top); !wires.empty())
    router->add_border(static_cast<DeviceId>(graph.devices().size()) - 1, std::move(wires));
  graph.set_router(std::move(router));
}

}  // namespace trainyard
