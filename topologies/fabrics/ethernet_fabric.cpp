#include <fmt/format.h>

#include <algorithm>

#include "models/hardware/adapter_rate.hpp"
#include "topologies/cluster.hpp"
#include "topologies/fabrics/fabric_rows.hpp"
#include "topologies/tree_router.hpp"

namespace trainyard {
namespace {

/// Overhead of every frame on the wire: preamble and start 8, header 14, check sequence 4, gap 12 bytes (IEEE 802.3);
/// inside it IP 20 and TCP 20 bytes without options (RFC 791, RFC 9293).
constexpr double kFraming = 8 + 14 + 4 + 12, kHeaders = 20 + 20;

/// One switch, which learns the address behind each port and so sends a frame only to its receiver; or a hub, which
/// repeats every frame to all hosts, so that only one can send at a time.
class EthernetFabric : public Fabric {
 public:
  EthernetFabric(double payload, bool hub) : payload_(payload), hub_(hub) {}

  std::string type() const override { return "ethernet"; }
  std::vector<LinkKind> link_kinds() const override { return {LinkKind::hca}; }
  bool reduces_in_switches() const override { return false; }
  bool has_top() const override { return true; }

  void build(DeviceGraph& graph, const ClusterSpec& spec) const override {
    const DeviceId middle = graph.add(fabric_switch(spec, hub_ ? "hub" : "switch", 0));
    BytesPerSecond slowest{HUGE_VAL};
    for (const NodeType* node : spec.types()) slowest = std::min(slowest, adapter_rate(*node));
    const LinkId medium = hub_ ? graph.add_shared("hub medium", LinkKind::ethernet, slowest * payload_) : -1;
    for (const DeviceId hca : fabric_hcas(graph, spec)) {
      Wire wire = hca_wire(spec, graph.devices()[hca].node);
      wire.rate = wire.rate * payload_;
      wire.medium = medium;
      wire.half_duplex &= !hub_;  // all ports of a hub share its medium anyway
      graph.connect(hca, middle, wire);
    }
    graph.set_router(tree_router(graph));
  }

  std::vector<FabricRow> rows(const DeviceGraph& graph, const ClusterSpec& spec) const override {
    const FabricView view(graph, spec);
    const std::string links = cables_of(view)[0].text("to HCAs");
    if (!hub_) return {{"Ethernet switch", links, ""}};
    const LinkId wire = graph.links_from(view.ends.front()).back();  // the cable to the hub was connected last
    const BytesPerSecond medium = graph.links()[graph.medium(wire)].capacity;
    return {
        {"Ethernet hub", fmt::format("{}, all on one medium of {}: one sender at a time", links, show(medium)), ""}};
  }

 private:
  double payload_;  // share of the rate that full frames leave to data
  bool hub_;
};

/// Keys: `mtu` (without it, rates are goodput) and `hub`.
std::shared_ptr<const Fabric> read_ethernet(Fields& fields) {
  const std::int64_t mtu = fields.integer("mtu", 68, 1500);
  if (mtu > 65535) fields.refuse("mtu", fmt::format("{} bytes; at most 65535", mtu));
  const auto bytes = static_cast<double>(mtu);
  const double payload = fields.has("mtu") ? (bytes - kHeaders) / (bytes + kFraming) : 1;
  return std::make_shared<EthernetFabric>(payload, fields.boolean("hub", false));
}

const Registration<FabricReader> registered_ethernet{fabric_types(), "ethernet", read_ethernet};

}  // namespace
}  // namespace trainyard
