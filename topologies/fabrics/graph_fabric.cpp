#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/hardware/link_fields.hpp"
#include "topologies/cluster.hpp"
#include "topologies/device_noun.hpp"
#include "topologies/fabrics/fabric_rows.hpp"

namespace trainyard {
namespace {

/// A cable of the fabric, as stated in the scenario.
struct StatedCable {
  std::string a, b;     // a switch of the fabric, or "node0/hca0"
  BytesPerSecond rate;  // 0: the rate of the HCA at its end
  Picoseconds latency;  // negative: not stated
  bool half_duplex = false;
  Place place;
  bool to_hca() const { return a.find('/') != std::string::npos || b.find('/') != std::string::npos; }
};

/// A fabric that is specified link by link. Messages take the shortest paths.
class GraphFabric : public Fabric {
 public:
  GraphFabric(std::vector<std::string> switches, std::vector<StatedCable> cables, std::string border)
      : switches_(std::move(switches)), cables_(std::move(cables)), border_(std::move(border)) {
    std::ranges::stable_partition(switches_, [this](const std::string& name) { return name != border_; });  // last
  }

  std::string type() const override { return "graph"; }
  std::vector<LinkKind> link_kinds() const override { return {LinkKind::hca, LinkKind::uplink}; }
  std::string routing() const override { return pair_routing(); }
  bool has_top() const override { return !border_.empty(); }
  std::string border_refusal() const override {
    return has_top() ? ""
                     : fmt::format("it does not say where they end; expected `border: NAME`, one of its switches: {}",
                                   fmt::join(switches_, ", "));
  }
  BytesPerSecond slowest_stated_link() const override {
    BytesPerSecond slowest;
    for (const StatedCable& cable : cables_)
      if (cable.rate.value > 0) slowest = slowest.value > 0 ? std::min(slowest, cable.rate) : cable.rate;
    return slowest;
  }
  void build(DeviceGraph&, const ClusterSpec&) const override;
  std::vector<FabricRow> rows(const DeviceGraph&, const ClusterSpec&) const override;

 private:
  std::vector<std::string> switches_;
  std::vector<StatedCable> cables_;
  std::string border_;  // the switch where cables to other islands end; "": not stated
};

/// Combines the cable's own figures and those of the HCAs at its ends.
Wire wire_of(const StatedCable& cable, const DeviceGraph& graph, const ClusterSpec& spec, DeviceId a, DeviceId b) {
  Wire wire{LinkKind::uplink, cable.rate, spec.switch_latency, cable.half_duplex};
  bool hca_below = false;
  for (const DeviceId end : {a, b}) {
    const Device& device = graph.devices()[end];
    if (device.kind != DeviceKind::hca) continue;
    const Wire hca_figures = hca_wire(spec, device.node);
    wire.kind = hca_figures.kind;
    wire.rate = wire.rate.value > 0 ? std::min(wire.rate, hca_figures.rate) : hca_figures.rate;
    // A cable between two HCAs has the latencies of both.
    wire.latency = hca_below ? wire.latency + hca_figures.latency : hca_figures.latency;
    wire.half_duplex |= hca_figures.half_duplex;
    hca_below = true;
  }
  if (cable.latency.count >= 0) wire.latency = cable.latency;
  return wire;
}

void GraphFabric::build(DeviceGraph& graph, const ClusterSpec& spec) const {
  std::map<std::string, DeviceId> ends;
  std::vector<std::string> names = switches_;
  const std::vector<DeviceId> hcas = fabric_hcas(graph, spec);
  for (const DeviceId hca : hcas) {
    names.push_back(graph.devices()[hca].name);
    ends[names.back()] = hca;
  }
  for (std::size_t i = 0; i < switches_.size(); ++i)
    ends[switches_[i]] = graph.add(fabric_switch(spec, switches_[i], static_cast<int>(i)));
  const auto end = [&](const std::string& name, const Place& place) {
    const auto found = ends.find(name);
    if (found == ends.end())
      fail(place, fmt::format("fabric: a link ends at \"{}\", which is no switch or HCA{}", name, hint(name, names)));
    return found->second;
  };
  for (const StatedCable& cable : cables_) {
    const DeviceId a = end(cable.a, cable.place), b = end(cable.b, cable.place);
    graph.connect(a, b, wire_of(cable, graph, spec, a, b));
  }
  for (const DeviceId hca : hcas)
    if (hca != hcas.front() && !graph.path(hcas.front(), hca, PathClass::fabric))
      fail(cables_.front().place, fmt::format("fabric: no links lead from {} to {}", graph.devices()[hcas.front()].name,
                                              graph.devices()[hca].name));
}

/// Lists a small fabric cable by cable.
std::vector<FabricRow> GraphFabric::rows(const DeviceGraph& graph, const ClusterSpec& spec) const {
  constexpr int kMostListed = 24;
  const FabricView view(graph, spec);
  const std::vector<CableCount> cables = cables_of(view);
  std::vector<DeviceId> switches = graph.devices_of_kind(DeviceKind::network_switch);
  std::erase_if(switches, [&view](DeviceId d) { return !view.contains(d); });
  std::vector<FabricRow> rows{{fmt::format("{} switches", switches.size()), cables[0].text("to HCAs"), ""}};
  if (cables[1].cables == 0) return rows;
  rows.front().detail += "; " + cables[1].text("between switches");
  if (cables[1].cables > kMostListed) return rows;
  for (const DeviceId s : switches)
    for (const LinkId wire : view.links(s))
      if (wire % 2 == 0 && is_switch(view, graph.ends(wire).to))
        rows.push_back(
            {fmt::format("{} - {}", view.name(s), view.name(graph.ends(wire).to)), cable_text(graph, wire), ""});
  return rows;
}

std::vector<std::string> read_switch_names(Fields& fields) {
  const Node& switches = fields.required_child("switches");
  std::vector<std::string> names;
  if (switches.kind != Node::Kind::list || switches.items.empty())
    fail(switches.place, fmt::format("{}: switches: expected a list of names", fields.what()));
  for (const Node& name : switches.items) {
    if (name.kind != Node::Kind::scalar || name.scalar.empty() || name.scalar.find('/') != std::string::npos)
      fail(name.place, fmt::format("{}: switches: expected names without \"/\"", fields.what()));
    if (std::ranges::count(names, name.scalar) > 0)
      fail(name.place, fmt::format("{}: switches: \"{}\" is there twice", fields.what(), name.scalar));
    names.push_back(name.scalar);
  }
  return names;
}

/// Keys: `switches: [NAME, …]`, `links: [{from, to, rate, latency, duplex}, …]`, and `border`, the switch where cables to
/// other islands end. Ends are switches or HCAs ("node0/hca1").
std::shared_ptr<const Fabric> read_graph_fabric(Fields& fields) {
  fields.required_child("switches");
  const Node& links = fields.required_child("links");
  std::vector<std::string> switches = read_switch_names(fields);
  std::vector<StatedCable> cables;
  if (links.kind != Node::Kind::list || links.items.empty())
    fail(links.place, fmt::format("{}: links: expected a list such as [{{from: node0/hca0, to: {}}}]", fields.what(),
                                  switches.front()));
  for (std::size_t i = 0; i < links.items.size(); ++i) {
    Fields link(links.items[i], fmt::format("{}: links.{}", fields.what(), i));
    StatedCable cable;
    cable.place = link.place();
    cable.a = link.text("from");
    cable.b = link.text("to");
    if (cable.a == cable.b) fail(cable.place, fmt::format("{}: joins {} with itself", link.what(), cable.a));
    cable.rate = link.has("rate") ? link.bandwidth("rate") : BytesPerSecond{0};
    if (!cable.to_hca() && !link.has("rate"))
      fail(cable.place, fmt::format("{}: missing key \"rate\" of a link between switches", link.what()));
    cable.latency = link.has("latency") ? read_latency(link, "latency") : Picoseconds{-1};
    cable.half_duplex = read_half_duplex(link);
    link.finish();
    cables.push_back(std::move(cable));
  }
  const std::string border = fields.text("border", "");
  if (!border.empty() && std::ranges::count(switches, border) == 0)
    fields.refuse("border", fmt::format("no switch is named \"{}\"{}", border, hint(border, switches)));
  return std::make_shared<GraphFabric>(std::move(switches), std::move(cables), border);
}

const Registration<FabricReader> registered_graph{fabric_types(), "graph", read_graph_fabric};

}  // namespace
}  // namespace trainyard
