#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "topologies/cluster.hpp"
#include "topologies/fabrics/tree_router.hpp"

namespace trainyard {
namespace {

/// Of every frame on the wire: preamble and start 8, header 14, check sequence 4, gap 12 (IEEE 802.3); in it IP 20 and
/// TCP 20 bytes without options (RFC 791, RFC 9293).
constexpr double kFraming = 8 + 14 + 4 + 12, kHeaders = 20 + 20;

/// `mtu` (absent: rates are taken as goodput) and `hub`.
void read_ethernet(ClusterSpec& spec, Fields& fields) {
  const std::int64_t mtu = fields.integer("mtu", 68, 1500);
  if (mtu > 65535) fail(fields.place_of("mtu"), fmt::format("{}.mtu: {} bytes; at most 65535", fields.what(), mtu));
  const auto bytes = static_cast<double>(mtu);
  spec.shape.payload = fields.has("mtu") ? (bytes - kHeaders) / (bytes + kFraming) : 1;
  spec.shape.hub = fields.boolean("hub", false);
}

/// One switch, which learns where everybody is and so disturbs nobody else; or a hub, which repeats every frame to all,
/// so that one at a time can send.
void build_ethernet(DeviceGraph& graph, const ClusterSpec& spec) {
  const DeviceId middle = graph.add({spec.shape.hub ? "hub" : "switch", DeviceKind::network_switch, -1, 0});
  BytesPerSecond slowest{HUGE_VAL};
  for (const NodeType* type : spec.types()) slowest = std::min(slowest, type->hca_rate);
  const LinkId medium =
      spec.shape.hub ? graph.add_shared({"hub medium", "Ethernet", slowest * spec.shape.payload}) : -1;
  for (const DeviceId hca : graph.all(DeviceKind::hca)) {
    Wire wire = hca_wire(spec, graph.devices()[static_cast<std::size_t>(hca)].node);
    wire.rate = wire.rate * spec.shape.payload;
    wire.medium = medium;
    wire.half_duplex &= !spec.shape.hub;  // the hub's medium is shared by all anyway
    graph.connect(hca, middle, wire);
  }
  graph.set_router(tree_router(graph));
}

const RegisterBuilder<FabricBuilder> registered_ethernet{
    fabric_builders(), "ethernet", {build_ethernet, read_ethernet}};

}  // namespace
}  // namespace trainyard
