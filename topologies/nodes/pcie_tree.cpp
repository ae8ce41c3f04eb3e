#include "topologies/nodes/pcie_tree.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "topologies/nodes/pcie_lanes.hpp"

namespace trainyard {
namespace {

struct NodeAdder {
  DeviceGraph& graph;
  const NodeType& type;
  int node;

  DeviceId add(const char* name, DeviceKind kind, int index) const {
    return graph.add({fmt::format("node{}/{}{}", node, name, index), kind, node, index});
  }
  Wire lanes(DeviceKind kind, int count = kFullWidth) const {
    return {LinkKind::pcie, lane_rate(type, kind, count), type.pcie_latency, type.pcie_half_duplex};
  }
  /// The direction to the drive has its write rate, the direction from it its read rate; both at most the rate of its
  /// lanes.
  Wire drive() const {
    const BytesPerSecond most = lane_rate(type, DeviceKind::nvme, type.nvme.lanes);
    return {LinkKind::nvme, std::min(type.nvme.read, most), type.nvme.latency, false, std::min(type.nvme.write, most)};
  }
  void add_drive(int index, DeviceId socket) const {
    graph.connect(add("nvme", DeviceKind::nvme, index), socket, drive());
  }
};

}  // namespace

DeviceId add_socket(DeviceGraph& graph, const NodeType& type, int node, int index) {
  const std::string name = fmt::format("node{}/cpu{}", node, index);
  const DeviceId cpu = graph.add({name, DeviceKind::cpu, node, index});
  const auto shared = [&](const char* what, LinkKind kind, BytesPerSecond rate) {
    return rate.value > 0 ? graph.add_shared(fmt::format("{} {}", name, what), kind, rate) : -1;
  };
  graph.set_host(cpu, {shared("memory", LinkKind::host_memory, type.cpu.memory_bandwidth),
                       shared("copies", LinkKind::cpu_copies, type.cpu.copy_rate)});
  return cpu;
}

namespace {

std::vector<DeviceId> add_sockets(const NodeAdder& adder) {
  std::vector<DeviceId> sockets;
  for (int s = 0; s < adder.type.sockets; ++s) {
    sockets.push_back(add_socket(adder.graph, adder.type, adder.node, s));
    for (int other = 0; other < s; ++other)
      adder.graph.connect(sockets[other], sockets.back(),
                          {LinkKind::socket, adder.type.socket_rate, adder.type.socket_latency});
  }
  return sockets;
}

/// Each GPU shares a switch with the HCA of the same index; if there are more HCAs than GPUs, with a block of
/// neighbours (four EFA adapters for each GPU in AWS' p5.48xlarge).
std::vector<DeviceId> add_paired_devices(const NodeAdder& adder, const std::vector<DeviceId>& sockets) {
  const NodeType& type = adder.type;
  DeviceGraph& graph = adder.graph;
  std::vector<DeviceId> gpus;
  int hca = 0;
  const auto home = [&type](int h) { return type.hcas > type.gpus ? h * type.gpus / type.hcas : h; };
  for (int i = 0; i < type.gpus; ++i) {
    const DeviceId pcie_switch = adder.add("pcie", DeviceKind::pcie_switch, i);
    graph.connect(pcie_switch, sockets[i * type.sockets / type.gpus], adder.lanes(DeviceKind::pcie_switch));
    gpus.push_back(adder.add("gpu", DeviceKind::gpu, i));
    graph.connect(gpus.back(), pcie_switch, adder.lanes(DeviceKind::gpu));
    for (; hca < type.hcas && home(hca) == i; ++hca)
      graph.connect(adder.add("hca", DeviceKind::hca, hca), pcie_switch, adder.lanes(DeviceKind::hca));
  }
  for (int i = 0; i < type.nvme.count; ++i) adder.add_drive(i, sockets[i * type.sockets / type.nvme.count]);
  return gpus;
}

std::vector<DeviceId> add_planned_devices(const NodeAdder& adder, const std::vector<DeviceId>& sockets) {
  const PciePlan plan = plan_lanes(adder.type);
  std::vector<DeviceId> switches, gpus;
  for (const PcieSwitch& s : adder.type.pcie_switches) {
    switches.push_back(adder.add("pcie", DeviceKind::pcie_switch, static_cast<int>(switches.size())));
    adder.graph.connect(switches.back(), sockets.at(static_cast<std::size_t>(s.socket)),
                        adder.lanes(DeviceKind::pcie_switch, s.uplink_lanes));
  }
  for (const PcieSlot& slot : plan.slots) {
    if (slot.kind == DeviceKind::nvme) {
      adder.add_drive(slot.index, sockets[slot.socket]);
      continue;
    }
    const bool gpu = slot.kind == DeviceKind::gpu;
    const DeviceId device = adder.add(gpu ? "gpu" : "hca", slot.kind, slot.index);
    if (gpu) gpus.push_back(device);
    const DeviceId above = slot.pcie_switch >= 0 ? switches[slot.pcie_switch] : sockets[slot.socket];
    adder.graph.connect(device, above, adder.lanes(slot.kind, slot.lanes));
  }
  return gpus;
}

}  // namespace

std::vector<DeviceId> add_pcie_tree(DeviceGraph& graph, const NodeType& type, int node) {
  const NodeAdder adder{graph, type, node};
  const std::vector<DeviceId> sockets = add_sockets(adder);
  return has_lane_plan(type) ? add_planned_devices(adder, sockets) : add_paired_devices(adder, sockets);
}

}  // namespace trainyard
