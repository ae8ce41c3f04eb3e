#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

/// `switches: [NAME, …]`, `links: [{from, to, rate, latency, duplex}, …]`: ends are switches or HCAs ("node0/hca1").
void read_graph_fabric(ClusterSpec& spec, Fields& fields) {
  const Node& switches = fields.required_child("switches");
  const Node& links = fields.required_child("links");
  if (switches.kind != Node::Kind::list || switches.items.empty())
    fail(switches.place, fmt::format("{}: switches: expected a list of names", fields.what()));
  for (const Node& name : switches.items) {
    if (name.kind != Node::Kind::scalar || name.scalar.empty() || name.scalar.find('/') != std::string::npos)
      fail(name.place, fmt::format("{}: switches: expected names without \"/\"", fields.what()));
    if (std::count(spec.shape.switches.begin(), spec.shape.switches.end(), name.scalar) > 0)
      fail(name.place, fmt::format("{}: switches: \"{}\" is there twice", fields.what(), name.scalar));
    spec.shape.switches.push_back(name.scalar);
  }
  if (links.kind != Node::Kind::list || links.items.empty())
    fail(links.place, fmt::format("{}: links: expected a list such as [{{from: node0/hca0, to: {}}}]", fields.what(),
                                  spec.shape.switches.front()));
  for (std::size_t i = 0; i < links.items.size(); ++i) {
    Fields link(links.items[i], fmt::format("{}: links.{}", fields.what(), i));
    FabricWire wire;
    wire.place = link.place();
    wire.a = link.text("from");
    wire.b = link.text("to");
    if (wire.a == wire.b) fail(wire.place, fmt::format("{}: joins {} with itself", link.what(), wire.a));
    wire.rate = link.has("rate") ? link.bandwidth("rate") : BytesPerSecond{0};
    const bool switched = wire.a.find('/') == std::string::npos && wire.b.find('/') == std::string::npos;
    if (switched && !link.has("rate"))
      fail(wire.place, fmt::format("{}: missing key \"rate\" of a link between switches", link.what()));
    wire.latency = link.has("latency") ? read_latency(link, "latency") : Picoseconds{-1};
    wire.half_duplex = read_half_duplex(link);
    link.finish();
    spec.shape.wires.push_back(std::move(wire));
  }
}

/// A fabric that is given link by link; ways are shortest ones.
void build_graph_fabric(DeviceGraph& graph, const ClusterSpec& spec) {
  std::map<std::string, DeviceId> ends;
  std::vector<std::string> names = spec.shape.switches;
  for (const DeviceId hca : graph.all(DeviceKind::hca)) {
    names.push_back(graph.devices()[static_cast<std::size_t>(hca)].name);
    ends[names.back()] = hca;
  }
  for (std::size_t i = 0; i < spec.shape.switches.size(); ++i)
    ends[spec.shape.switches[i]] =
        graph.add({spec.shape.switches[i], DeviceKind::network_switch, -1, static_cast<int>(i)});
  const auto end = [&](const std::string& name, const Place& place) {
    const auto found = ends.find(name);
    if (found == ends.end())
      fail(place, fmt::format("fabric: a link ends at \"{}\", which is no switch or HCA{}", name, hint(name, names)));
    return found->second;
  };
  for (const FabricWire& link : spec.shape.wires) {
    const DeviceId a = end(link.a, link.place), b = end(link.b, link.place);
    const auto devices = graph.devices();
    Wire wire{"uplink", link.rate, spec.switch_latency, link.half_duplex};
    bool hca_below = false;
    for (const DeviceId hca : {a, b})
      if (devices[static_cast<std::size_t>(hca)].kind == DeviceKind::hca) {
        const Wire own = hca_wire(spec, devices[static_cast<std::size_t>(hca)].node);
        wire.kind = own.kind;
        wire.rate = wire.rate.value > 0 ? std::min(wire.rate, own.rate) : own.rate;
        wire.latency = hca_below ? wire.latency + own.latency : own.latency;  // a cable between two has both of theirs
        wire.half_duplex |= own.half_duplex;
        hca_below = true;
      }
    if (link.latency.count >= 0) wire.latency = link.latency;
    graph.connect(a, b, wire);
  }
  const std::vector<DeviceId> hcas = graph.all(DeviceKind::hca);
  for (const DeviceId hca : hcas)
    if (hca != hcas.front() && !graph.way(hcas.front(), hca, PathClass::fabric))
      fail(spec.shape.wires.front().place, fmt::format("fabric: no links lead from {} to {}",
                                                       graph.devices()[static_cast<std::size_t>(hcas.front())].name,
                                                       graph.devices()[static_cast<std::size_t>(hca)].name));
}

const RegisterBuilder<FabricBuilder> registered_graph_fabric{
    fabric_builders(), "graph", {build_graph_fabric, read_graph_fabric}};

}  // namespace
}  // namespace trainyard
