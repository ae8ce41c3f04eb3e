#include "models/hardware/node_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/hardware/link_fields.hpp"

namespace trainyard {
namespace {

std::vector<std::string> devices_of_graph(const NodeType& node) {
  std::vector<std::string> names;
  const auto add = [&names](const char* kind, int count) {
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", kind, i));
  };
  add("gpu", node.gpus);
  add("hca", node.hcas);
  add("cpu", node.sockets);
  add("nvme", node.nvme.count);
  names.insert(names.end(), node.extra_switches.begin(), node.extra_switches.end());
  return names;
}

std::string end_of_wire(Fields& fields, const char* key, const std::vector<std::string>& devices) {
  std::string name = fields.text(key);
  if (std::find(devices.begin(), devices.end(), name) == devices.end())
    fields.refuse(key,
                  fmt::format("the wire ends at \"{}\", which is no device of the node{}", name, hint(name, devices)));
  return name;
}

/// A kind of link that a "graph" may have, and the node's key and figures for its rate and latency.
struct GraphLink {
  LinkKind kind;
  const char* key;
  BytesPerSecond (*rate)(const NodeType&);
  Picoseconds (*latency)(const NodeType&);
};

constexpr GraphLink kGraphLinks[] = {
    {LinkKind::pcie, "pcie", [](const NodeType& n) { return n.pcie_rate; },
     [](const NodeType& n) { return n.pcie_latency; }},
    {LinkKind::nvlink, "nvlink", [](const NodeType& n) { return n.gpu.nvlink; },
     [](const NodeType& n) { return n.nvlink_latency; }},
    {LinkKind::socket, "socket_link", [](const NodeType& n) { return n.socket_rate; },
     [](const NodeType& n) { return n.socket_latency; }},
};

const GraphLink& link_named(const std::string& kind) {
  return *std::find_if(std::begin(kGraphLinks), std::end(kGraphLinks),
                       [&kind](const GraphLink& link) { return name_of(link.kind) == kind; });
}

GraphWire wire_of(const NodeType& node, Fields& around, const Node& entry, const std::string& what,
                  const std::vector<std::string>& devices) {
  Fields fields(entry, what);
  GraphWire wire;
  wire.place = fields.place();
  wire.a = end_of_wire(fields, "from", devices);
  wire.b = end_of_wire(fields, "to", devices);
  if (wire.a == wire.b) fail(wire.place, fmt::format("{}: joins {} with itself", what, wire.a));
  const GraphLink& link = link_named(fields.choice("kind", {"PCIe", "NVLink", "socket"}, "PCIe"));
  wire.kind = link.kind;
  const bool pcie = link.kind == LinkKind::pcie;
  const std::int64_t lanes = fields.integer("lanes", 1, kFullWidth);
  if (fields.has("lanes") && (!pcie || lanes > kFullWidth || (lanes & (lanes - 1)) != 0))
    fields.refuse("lanes", fmt::format("only for PCIe: 1, 2, 4, 8 or {}", kFullWidth));
  const BytesPerSecond standard = link.rate(node) * (pcie ? static_cast<double>(lanes) / kFullWidth : 1);
  wire.rate = standard.value > 0 ? fields.bandwidth("rate", standard) : fields.bandwidth("rate");
  // Required if the node states no latency for links of this kind.
  wire.latency = fields.has("latency") || !around.has(link.key) ? read_latency(fields, "latency") : link.latency(node);
  wire.half_duplex = fields.has("duplex") ? read_half_duplex(fields) : pcie && node.pcie_half_duplex;
  fields.finish();
  return wire;
}

}  // namespace

void read_graph(NodeType& node, Fields& fields) {
  const Node* switches = fields.child("switches");
  const Node& wires = fields.required_child("wires");
  if (switches && switches->kind != Node::Kind::list)
    fail(switches->place, fmt::format("{}: switches: expected a list of names", fields.what()));
  if (wires.kind != Node::Kind::list || wires.items.empty())
    fail(wires.place,
         fmt::format("{}: wires: expected a list such as [{{from: gpu0, to: cpu0, kind: PCIe}}]", fields.what()));
  if (switches)
    for (const Node& name : switches->items) {
      const std::vector<std::string> used_names = devices_of_graph(node);
      if (name.kind != Node::Kind::scalar || name.scalar.empty() || name.scalar.find('/') != std::string::npos)
        fail(name.place, fmt::format("{}: switches: expected names without \"/\"", fields.what()));
      if (std::find(used_names.begin(), used_names.end(), name.scalar) != used_names.end())
        fail(name.place, fmt::format("{}: switches: \"{}\" is there twice", fields.what(), name.scalar));
      node.extra_switches.push_back(name.scalar);
    }
  const std::vector<std::string> devices = devices_of_graph(node);
  std::set<std::pair<std::string, std::string>> pairs;
  for (std::size_t i = 0; i < wires.items.size(); ++i) {
    node.wires.push_back(wire_of(node, fields, wires.items[i], fmt::format("{}: wires.{}", fields.what(), i), devices));
    const GraphWire& wire = node.wires.back();
    if (!pairs.insert(std::minmax(wire.a, wire.b)).second)
      fail(wire.place, fmt::format("{}: wires.{}: {} and {} are joined twice; give one wire the rate of both",
                                   fields.what(), i, wire.a, wire.b));
  }
  if (node.lanes_per_socket > 0 || node.device_lanes > 0)
    fail(fields.place_of("pcie"),
         fmt::format("{}: pcie: lanes_per_socket and device_lanes have no effect in a graph, whose "
                     "wires have lanes of their own",
                     fields.what()));
}

}  // namespace trainyard
