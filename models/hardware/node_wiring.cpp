#include "models/hardware/node_wiring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/hardware/link_fields.hpp"

namespace trainyard {
namespace {

constexpr int kMostSockets = 8;

/// Returns the list below `key`, written plainly or as {value: […], source: …}; null if absent.
const Node* list_of(Fields& fields, Key key) {
  const Node* node = fields.child_unless_null(key);
  if (!node) return nullptr;
  if (const Node* value = node->kind == Node::Kind::map ? node->find("value") : nullptr) node = value;
  if (node->kind != Node::Kind::list) fail(node->place, fields.path(key) + ": expected a list");
  return node;
}

int number_below(const Node& node, int count, const std::string& what) {
  if (count == 0) fail(node.place, fmt::format("{}: {}, but the node has none", what, node.scalar));
  return static_cast<int>(whole_number(node, what, 0, count - 1));
}

/// Reads the devices of a switch, and throws UserError if one is in `used` already: another switch has it.
std::vector<int> devices_of(Fields& fields, std::string_view key, int count, std::set<int>& used) {
  std::vector<int> devices;
  const Node* list = list_of(fields, key);
  if (!list) return devices;
  for (const Node& item : list->items) {
    const std::string what = fields.path(key);
    const int device = number_below(item, count, what);
    if (!used.insert(device).second) fail(item.place, fmt::format("{}: {} is below two switches", what, device));
    devices.push_back(device);
  }
  return devices;
}

void read_switches(NodeType& node, Fields& pcie) {
  const Node* list =
      list_of(pcie, {"switches", "PCIe switches: [{socket: 0, gpus: [0, 1], hcas: [0], uplink_lanes: 16}, ...]."});
  if (!list) return;
  std::set<int> gpus, hcas;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    Fields fields(list->items[i], fmt::format("{}.switches.{}", pcie.what(), i));
    PcieSwitch s;
    if (const Node* socket = fields.child("socket"))
      s.socket = number_below(*socket, node.sockets, fields.path("socket"));
    s.gpus = devices_of(fields, "gpus", node.gpus, gpus);
    s.hcas = devices_of(fields, "hcas", node.hcas, hcas);
    s.uplink_lanes = read_lanes(fields, "uplink_lanes", kFullWidth);
    fields.finish();
    node.pcie_switches.push_back(std::move(s));
  }
}

/// Reads `rate`, `generation` and `gpu_rate`. `rate` wins over `generation`, so that one figure is enough to change a
/// link of the catalog; it then holds for GPUs too, unless `gpu_rate` is stated, which may be faster (NVLink-C2C). With a
/// generation only, a GPU of an older generation has its own rate.
void read_pcie_rate(NodeType& node, Fields& pcie) {
  const BytesPerSecond stated_rate = pcie.bandwidth(
      {"rate", "Rate of 16 lanes, each way, instead of a generation; left out: the device's rate."}, BytesPerSecond{0});
  const std::int64_t generation = pcie.integer({"generation", "PCIe generation, 3 to 6, instead of a rate."}, 1, 0);
  if (pcie.has("generation") && (generation < 3 || generation > 6))
    pcie.refuse("generation", fmt::format("{} is not known; known: 3, 4, 5, 6", generation));
  if (stated_rate.value > 0) {
    node.pcie_rate = stated_rate;
  } else if (generation > 0) {
    node.pcie_rate = pcie_rate(static_cast<int>(generation), kFullWidth);
    if (node.gpu.pcie.value > 0) node.gpu_pcie_rate = std::min(node.gpu.pcie, node.pcie_rate);
  } else {
    node.pcie_rate = node.gpu.pcie;
  }
  if (const BytesPerSecond gpu_rate = pcie.bandwidth(
          {"gpu_rate", "Rate of a device's own link to the host, if it is another than that of adapters and drives."},
          BytesPerSecond{0});
      gpu_rate.value > 0)
    node.gpu_pcie_rate = gpu_rate;
  if (node.pcie_rate.value <= 0)
    fail(pcie.place(), fmt::format("{}: missing key \"rate\": gpu {} gives none", pcie.what(), node.gpu.name));
}

void read_pcie(NodeType& node, Fields& pcie) {
  node.pcie_latency = read_latency(pcie, {"latency", "Latency of a hop between a device and a switch or root port."});
  read_pcie_rate(node, pcie);
  constexpr std::int64_t most_lanes = 1024;
  node.lanes_per_socket = pcie.integer_within<int>(
      {"lanes_per_socket", "PCIe lanes of a socket for devices and switches; 0: no limit."}, 1, most_lanes, 0);
  node.device_lanes =
      read_lanes(pcie, {"device_lanes", "PCIe lanes of each device; 0: 16, or as many as bifurcation leaves."}, 0);
  read_switches(node, pcie);
  // If a node states its switches or device lanes, the lanes of its CPU limit them. Otherwise each pair of devices has
  // a switch, whatever the CPU.
  if (node.lanes_per_socket == 0 && (!node.pcie_switches.empty() || node.device_lanes > 0))
    node.lanes_per_socket = node.cpu.lanes;
  node.pcie_half_duplex = read_half_duplex(pcie);
  node.peer_to_peer =
      pcie.one_of({"peer_to_peer", "Largest distance at which devices reach each other's memory without the host's."},
                  {"none", "switch", "socket", "node"}, PeerToPeer::socket);
  if (node.device_lanes > 0 && node.lanes_per_socket == 0 && node.pcie_switches.empty())
    pcie.refuse("device_lanes", "has no effect without lanes_per_socket or switches");
}

void read_sockets(NodeType& node, Fields& fields) {
  node.sockets = fields.integer_within<int>({"sockets", "Number of CPU sockets; each pair of them is joined."}, 1,
                                            kMostSockets, 1);
  if (node.sockets > 1 && !fields.child("socket_link"))
    fail(fields.place_of("sockets"),
         fmt::format("{}: {} sockets: missing key \"socket_link\" (the rate and latency between two of them)",
                     fields.what(), node.sockets));
  fields.read_map("socket_link", [&node](Fields& link) {
    node.socket_rate = link.bandwidth({"rate", "Rate between two sockets, each way."});
    node.socket_latency = read_latency(link, {"latency", "Latency of a hop between sockets."});
  });
}

void read_mesh(NodeType& node, Fields& nvlink) {
  node.nvlink_rate = nvlink.bandwidth({"link_rate", "Rate of one link of a mesh, each way."});
  const Node* list = list_of(nvlink, {"mesh", "Links between devices: [[device, device, number of links], ...]."});
  if (!list || (list->items.empty() && node.gpus > 1))
    fail(nvlink.place(), fmt::format("{}: missing key \"mesh\": [[GPU, GPU, number of links], …]", nvlink.what()));
  std::set<std::pair<int, int>> pairs;
  constexpr int most_links = 64;
  const std::string what = nvlink.path("mesh");
  for (const Node& item : list->items) {
    if (item.kind != Node::Kind::list || item.items.size() != 3)
      fail(item.place, fmt::format("{}: expected [GPU, GPU, number of links], such as [0, 3, 2]", what));
    const NvlinkBundle bundle{number_below(item.items[0], node.gpus, what),
                              number_below(item.items[1], node.gpus, what),
                              number_below(item.items[2], most_links + 1, what)};
    if (bundle.links == 0) fail(item.items[2].place, fmt::format("{}: 0 links are no edge", what));
    if (bundle.a == bundle.b) fail(item.place, fmt::format("{}: joins GPU {} with itself", what, bundle.a));
    if (!pairs.insert(std::minmax(bundle.a, bundle.b)).second)
      fail(item.place, fmt::format("{}: GPUs {} and {} are joined twice", what, bundle.a, bundle.b));
    node.nvlink_mesh.push_back(bundle);
  }
}

/// Throws UserError if the GPU has no NVLink. `what` names the part of the node that needs it.
void require_nvlink(const NodeType& node, const Fields& fields, const std::string& what) {
  if (node.gpu.nvlink.value > 0 || node.gpu.chip_links.count > 0) return;  // chip links: xGMI
  fail(fields.place_of("gpu"),
       fmt::format(
           "{}: gpu {} takes no NVLink (its entry gives no \"nvlink\", the rate of all of them), but {} needs some",
           fields.what(), node.gpu.name, what));
}

/// Throws UserError if the node changes its GPU's NVLink rate and not that of the mesh's links, which decides.
void require_link_rate(const NodeType& node, const Fields& nvlink, const Node& gpu) {
  const Node* changed = gpu.find("nvlink");
  if (!changed) return;
  const Place own = changed->place, links = nvlink.place_of("link_rate");
  if (own.line == 0 ? links.line == 0 : links.line > 0 && *own.file == *links.file) return;
  fail(own, fmt::format("gpu.nvlink has no effect in a mesh, each of whose links has {}: expected nvlink.link_rate, "
                        "the rate of one link",
                        show(node.nvlink_rate)));
}

void read_nvlink(NodeType& node, Fields& fields) {
  const bool nvswitch = node.interconnect == "nvswitch", mesh = node.interconnect == "nvlink-mesh";
  if (nvswitch || mesh) fields.required_child("nvlink");
  fields.read_map("nvlink", [&](Fields& nvlink) {
    node.nvlink_latency = read_latency(nvlink, {"latency", "Latency from device to device, including the switch."});
    if (!mesh) return;
    read_mesh(node, nvlink);
    if (const Node* gpu = fields.child("gpu"); gpu && gpu->kind == Node::Kind::map)
      require_link_rate(node, nvlink, *gpu);
  });
  if (nvswitch || mesh) require_nvlink(node, fields, fmt::format("interconnect {}", node.interconnect));
}

/// Throws UserError if a wire of a "graph" is an NVLink at a GPU without NVLink.
void require_nvlinks_of_wires(const NodeType& node, const Fields& fields) {
  for (const GraphWire& wire : node.wires)
    if (wire.kind == LinkKind::nvlink && (wire.a.starts_with("gpu") || wire.b.starts_with("gpu")))
      require_nvlink(node, fields, fmt::format("a wire from {} to {}", wire.a, wire.b));
}

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
  if (std::ranges::find(devices, name) == devices.end())
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

void read_links(NodeType& node, Fields& fields) {
  read_sockets(node, fields);
  const bool graph = node.interconnect == "graph";
  if (!graph) fields.required_child("pcie");
  fields.read_map("pcie", [&node](Fields& pcie) { read_pcie(node, pcie); });
  read_nvlink(node, fields);
  if (!graph) return;
  read_graph(node, fields);
  require_nvlinks_of_wires(node, fields);
}

void read_graph(NodeType& node, Fields& fields) {
  const Node* switches = fields.child({"switches", "Names of the switches, with interconnect graph."});
  const Node& wires = fields.required_child(
      {"wires", "Wires, with interconnect graph: [{from: gpu0, to: cpu0, kind: PCIe, lanes: 16}, ...]."});
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
      if (std::ranges::find(used_names, name.scalar) != used_names.end())
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
    fail(fields.place_of("pcie"), fmt::format("{}: pcie: lanes_per_socket and device_lanes have no effect in a graph, "
                                              "whose wires have lanes of their own",
                                              fields.what()));
}

}  // namespace trainyard
