#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

/// A switch with only NVLinks is an NVSwitch.
DeviceKind switch_kind(const NodeType& type, const std::string& name) {
  const bool nvlink = std::ranges::all_of(type.wires, [&name](const GraphWire& wire) {
    return (wire.a != name && wire.b != name) || wire.kind == LinkKind::nvlink;
  });
  return nvlink ? DeviceKind::nvswitch : DeviceKind::pcie_switch;
}

/// Builds a node that is specified wire by wire.
void build_graph_node(DeviceGraph& graph, const NodeType& type, int node) {
  std::map<std::string, DeviceId> devices;
  const auto add = [&](const std::string& name, DeviceKind kind, int index) {
    devices[name] = graph.add({fmt::format("node{}/{}", node, name), kind, node, index});
  };
  for (int i = 0; i < type.sockets; ++i) devices[fmt::format("cpu{}", i)] = add_socket(graph, type, node, i);
  for (std::size_t i = 0; i < type.extra_switches.size(); ++i)
    add(type.extra_switches[i], switch_kind(type, type.extra_switches[i]), static_cast<int>(i));
  for (int i = 0; i < type.gpus; ++i) add(fmt::format("gpu{}", i), DeviceKind::gpu, i);
  for (int i = 0; i < type.hcas; ++i) add(fmt::format("hca{}", i), DeviceKind::hca, i);
  for (int i = 0; i < type.nvme.count; ++i) add(fmt::format("nvme{}", i), DeviceKind::nvme, i);
  for (const GraphWire& wire : type.wires) {
    const bool to_drive = wire.b.starts_with("nvme"), from_drive = wire.a.starts_with("nvme");
    Wire out{wire.kind, wire.rate, wire.latency, wire.half_duplex};
    if (to_drive != from_drive) {  // the slower of wire and drive; from the drive is read, towards it written
      out.rate = std::min(wire.rate, from_drive ? type.nvme.read : type.nvme.write);
      out.back = std::min(wire.rate, from_drive ? type.nvme.write : type.nvme.read);
      out.latency += type.nvme.latency;
      out.kind = LinkKind::nvme;
    }
    graph.connect(devices.at(wire.a), devices.at(wire.b), out);
  }
  // A device without wires would be detected only by the first message: check it now.
  const DeviceId first = devices.at("gpu0");
  for (const auto& [name, device] : devices)
    if (device != first && name.find("cpu") != 0 && !graph.cost(first, device))
      fail(type.wires.front().place, fmt::format("node {}: no wires lead from gpu0 to {}", type.name, name));
  const bool staged = type.hcas > 0 && !type.network.gpudirect;
  for (int i = 0; staged && i < type.gpus; ++i) {
    const DeviceId gpu = devices.at(fmt::format("gpu{}", i));
    bool host = false;
    for (int s = 0; s < type.sockets && !host; ++s)
      host = graph.path(gpu, devices.at(fmt::format("cpu{}", s)), PathClass::pcie).has_value();
    if (!host)
      fail(type.wires.front().place, fmt::format("node {}: messages of gpu{} are staged in host memory "
                                                 "(hca.gpudirect), but no PCIe leads from it to a CPU",
                                                 type.name, i));
  }
}

const Registration<NodeBuilder> registered_graph_node{node_builders(), "graph", build_graph_node};

}  // namespace
}  // namespace trainyard
