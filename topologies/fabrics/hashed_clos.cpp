#include <algorithm>
#include <map>
#include <numeric>

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
  HashedClosRouter(ClosShape shape, const RouteHash& hash) : shape_(std::move(shape)), hash_(hash) {
    up_.resize(static_cast<std::size_t>(shape_.levels()));
  }
  void add_hca(DeviceId hca, int port, LinkId wire) { hcas_.emplace(hca, Hca{port, wire}); }
  void add_uplink(int level, LinkId wire) { up_[level].push_back(wire); }

  bool path(const DeviceGraph& graph, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const override {
    return flow_path(graph, from, to, 0, wires);
  }
  int flows() const override { return hash_.queue_pairs; }
  bool flow_path(const DeviceGraph& graph, DeviceId from, DeviceId to, int flow,
                 std::vector<LinkId>& wires) const override {
    const auto a = hcas_.find(from), b = hcas_.find(to);
    if (a == hcas_.end() || b == hcas_.end()) return false;
    const Ways ways = ways_between(a->second, b->second);
    const std::uint64_t first = first_of(from, to, flow) % ways.choices;
    for (std::uint64_t i = 0; i < ways.choices; ++i)
      if (take(graph, a->second, b->second, ways.top, (first + i) % ways.choices, wires)) return true;
    return false;
  }

  bool chooses_paths() const override { return hash_.adaptive; }
  int choices(DeviceId from, DeviceId to) const override {
    const auto a = hcas_.find(from), b = hcas_.find(to);
    if (!hash_.adaptive || a == hcas_.end() || b == hcas_.end()) return 1;
    return static_cast<int>(std::min(kMostChoices, ways_between(a->second, b->second).choices));
  }
  bool choice(const DeviceGraph& graph, DeviceId from, DeviceId to, int number,
              std::vector<LinkId>& wires) const override {
    const Hca &a = hcas_.at(from), &b = hcas_.at(to);
    const Ways ways = ways_between(a, b);
    // If there are more choices, a stride without a common factor spreads the numbers over the uplinks of all levels,
    // and gives no path twice.
    std::uint64_t stride = ways.choices <= kMostChoices ? 1 : ways.choices / kMostChoices + 1;
    while (std::gcd(stride, ways.choices) > 1) ++stride;
    const std::uint64_t chosen = (first_of(from, to, 0) + static_cast<std::uint64_t>(number) * stride) % ways.choices;
    return take(graph, a, b, ways.top, chosen, wires);
  }

 private:
  static constexpr std::uint64_t kMostChoices = 64;
  struct Hca {
    int number = 0;
    LinkId wire = 0;  // to its leaf
  };
  /// The ways from one HCA to another.
  struct Ways {
    int top = 0;  ///< the level at which both are in one group
    std::uint64_t choices = 1;
  };
  Ways ways_between(const Hca& a, const Hca& b) const {
    Ways ways;
    int group_a = a.number / shape_.down(0), group_b = b.number / shape_.down(0);
    for (; group_a != group_b; ++ways.top) {
      ways.choices *= static_cast<std::uint64_t>(shape_.uplinks(ways.top));
      group_a /= shape_.down(ways.top + 1);
      group_b /= shape_.down(ways.top + 1);
    }
    return ways;
  }
  std::uint64_t first_of(DeviceId from, DeviceId to, int flow) const {
    const std::uint64_t first =
        hash_numbers({hash_.seed, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to)});
    return flow > 0 ? hash_numbers({first, static_cast<std::uint64_t>(flow)}) : first;
  }
  ClosShape shape_;
  RouteHash hash_;
  std::map<DeviceId, Hca> hcas_;
  std::vector<std::vector<LinkId>> up_;  // indexed by level: (group · planes + plane) · uplinks + uplink

  LinkId uplink(int level, int group, int plane, int port) const {
    const auto uplinks = static_cast<int>(shape_.uplinks(level));
    return up_[level][(position(group) * position(shape_.planes(level)) + position(plane)) * position(uplinks) +
                      position(port)];
  }

  /// Appends the path for one choice of uplinks. Returns false, without appending, if one of its wires is down.
  bool take(const DeviceGraph& graph, const Hca& a, const Hca& b, int top, std::uint64_t choice,
            std::vector<LinkId>& wires) const {
    std::vector<LinkId> up{a.wire}, down{b.wire ^ 1};
    int plane = 0, group_a = a.number / shape_.down(0), group_b = b.number / shape_.down(0);
    for (int level = 0; level < top; ++level) {
      const auto uplinks = static_cast<std::uint64_t>(shape_.uplinks(level));
      const auto port = static_cast<int>(choice % uplinks);
      choice /= uplinks;
      up.push_back(uplink(level, group_a, plane, port));
      down.push_back(uplink(level, group_b, plane, port) ^ 1);
      plane = plane * static_cast<int>(uplinks) + port;
      group_a /= shape_.down(level + 1);
      group_b /= shape_.down(level + 1);
    }
    up.insert(up.end(), down.rbegin(), down.rend());
    if (!std::ranges::all_of(up, [&graph](LinkId wire) { return graph.is_up(wire); })) return false;
    wires.insert(wires.end(), up.begin(), up.end());
    return true;
  }
};

}  // namespace

void build_hashed_clos(DeviceGraph& graph, const ClusterSpec& spec, const ClosShape& shape,
                       const std::vector<DeviceId>& ports, BytesPerSecond link_rate, const RouteHash& hash) {
  auto router = std::make_unique<HashedClosRouter>(shape, hash);
  std::vector<DeviceId> first;  // first switch of each level
  for (int l = 0; l < shape.levels(); ++l)
    for (int g = 0; g < shape.groups(l); ++g)
      for (int p = 0; p < shape.planes(l); ++p) {
        const DeviceId id = graph.add({shape.name(l, g, p), DeviceKind::network_switch, -1, g * shape.planes(l) + p});
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
  graph.set_router(std::move(router));
}

}  // namespace trainyard
