#include "topologies/nodes/pcie_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/error.hpp"

namespace trainyard {
namespace {

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

/// Slots of the devices. Only those behind switches have a socket yet.
std::vector<PcieSlot> slots_of(const NodeType& node) {
  std::vector<PcieSlot> slots;
  for (int i = 0; i < node.gpus; ++i) slots.push_back({DeviceKind::gpu, i, -1, -1, kFullWidth});
  for (int i = 0; i < node.hcas; ++i) slots.push_back({DeviceKind::hca, i, -1, -1, kFullWidth});
  for (int i = 0; i < node.nvme.count; ++i)
    slots.push_back({DeviceKind::nvme, i, i * node.sockets / node.nvme.count, -1, node.nvme.lanes});
  for (std::size_t s = 0; s < node.pcie_switches.size(); ++s) {
    const PcieSwitch& pcie_switch = node.pcie_switches[s];
    const auto put = [&](int slot) {
      PcieSlot& moved_slot = slots.at(static_cast<std::size_t>(slot));
      moved_slot.socket = pcie_switch.socket;
      moved_slot.pcie_switch = static_cast<int>(s);
    };
    for (const int gpu : pcie_switch.gpus) put(gpu);
    for (const int hca : pcie_switch.hcas) put(node.gpus + hca);
  }
  return slots;
}

/// Puts GPUs at root ports in blocks of neighbours. Then puts HCAs at the sockets with the fewest devices, again in
/// blocks.
void deal_out(std::vector<PcieSlot>& slots, const NodeType& node) {
  std::vector<int> devices(static_cast<std::size_t>(node.sockets), 0);
  int total = 0;
  for (PcieSlot& slot : slots) {
    if (slot.pcie_switch >= 0 || slot.kind == DeviceKind::nvme) continue;
    ++total;
    if (slot.kind != DeviceKind::gpu) continue;
    slot.socket = slot.index * node.sockets / node.gpus;
    ++devices[slot.socket];
  }
  int socket = 0;
  for (PcieSlot& slot : slots) {
    if (slot.pcie_switch >= 0 || slot.kind != DeviceKind::hca) continue;
    const auto full = [&](int s) { return devices[s] >= total * (s + 1) / node.sockets - total * s / node.sockets; };
    while (socket + 1 < node.sockets && full(socket)) ++socket;
    slot.socket = socket;
    ++devices[socket];
  }
}

struct Need {
  std::size_t devices = 0;  // at root ports
  std::size_t uplinks = 0;
  std::size_t drives = 0;
  int other_lanes = 0;  // lanes of uplinks and drives
};

std::string describe_need(const Need& need, int width) {
  std::vector<std::string> parts;
  if (need.devices > 0) parts.push_back(fmt::format("{} device{} at x{}", need.devices, plural(need.devices), width));
  if (need.uplinks > 0) parts.push_back(fmt::format("{} switch uplink{}", need.uplinks, plural(need.uplinks)));
  if (need.drives > 0) parts.push_back(fmt::format("{} NVMe drive{}", need.drives, plural(need.drives)));
  return fmt::format("{}", fmt::join(parts, " and "));
}

[[noreturn]] void too_few_lanes(const std::string& where, const Need& need, int width, int lanes, int fit) {
  std::string text = fmt::format("{}: {} need{} {} PCIe lanes, but there are {}", where, describe_need(need, width),
                                 need.devices + need.uplinks + need.drives == 1 ? "s" : "",
                                 static_cast<int>(need.devices) * width + need.other_lanes, lanes);
  if (need.devices > 0)
    text += fmt::format(": {} device{} fit{} at x{}{}", fit, plural(static_cast<std::size_t>(fit)), fit == 1 ? "s" : "",
                        width,
                        need.drives > 0    ? " besides the others"
                        : need.uplinks > 0 ? " besides the uplinks"
                                           : "");
  throw UserError(text);
}

/// Shares the lanes that each socket's uplinks leave among its root-port devices.
void share_lanes(PciePlan& plan, const NodeType& node) {
  const int width = node.device_lanes > 0 ? node.device_lanes : kFullWidth;
  std::vector<Need> needs(static_cast<std::size_t>(node.sockets));
  std::vector<std::vector<PcieSlot*>> at_root(needs.size());
  for (PcieSlot& slot : plan.slots)
    if (slot.kind == DeviceKind::nvme) {
      Need& need = needs[slot.socket];
      ++need.drives;
      need.other_lanes += slot.lanes;
    } else if (slot.pcie_switch < 0)
      at_root[slot.socket].push_back(&slot);
  for (const PcieSwitch& pcie_switch : node.pcie_switches) {
    Need& need = needs[pcie_switch.socket];
    ++need.uplinks;
    need.other_lanes += pcie_switch.uplink_lanes;
  }
  Need all;
  int fit = 0;
  for (std::size_t s = 0; s < needs.size(); ++s) {
    needs[s].devices = at_root[s].size();
    all.devices += needs[s].devices;
    all.uplinks += needs[s].uplinks;
    all.drives += needs[s].drives;
    all.other_lanes += needs[s].other_lanes;
    fit += std::max(0, node.lanes_per_socket - needs[s].other_lanes) / width;
  }
  // A socket's lanes cannot serve another socket: if all lanes together suffice, a single socket has too few.
  if (const int lanes = node.lanes_per_socket * node.sockets;
      node.device_lanes > 0 && static_cast<int>(all.devices) * width + all.other_lanes > lanes)
    too_few_lanes("node " + node.name, all, width, lanes, fit);
  for (std::size_t s = 0; s < needs.size(); ++s) {
    const int lanes_left = node.lanes_per_socket - needs[s].other_lanes;
    const auto devices = static_cast<int>(needs[s].devices);
    // Without a stated width, devices may be as narrow as one lane.
    const int least = node.device_lanes > 0 ? node.device_lanes : 1;
    if (lanes_left < devices * least)
      too_few_lanes(fmt::format("node {}, socket {}", node.name, s), needs[s], least, node.lanes_per_socket,
                    std::max(0, lanes_left) / least);
    const std::vector<int> widths =
        node.device_lanes > 0 ? std::vector<int>(needs[s].devices, width) : bifurcate(lanes_left, devices, width);
    for (std::size_t i = 0; i < widths.size(); ++i) at_root[s][i]->lanes = widths[i];
    plan.lanes_left.push_back(lanes_left - std::accumulate(widths.begin(), widths.end(), 0));
  }
}

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
  /// A switch that a GPU shares with adapters reaches its socket no slower than the GPU's own link, which may be
  /// NVLink-C2C.
  Wire uplink() const {
    Wire wire = lanes(DeviceKind::pcie_switch);
    wire.rate = std::max(wire.rate, lanes(DeviceKind::gpu).rate);
    return wire;
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
    graph.connect(pcie_switch, sockets[i * type.sockets / type.gpus], adder.uplink());
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

std::vector<int> bifurcate(int lanes, int devices, int width) {
  if (devices > lanes)
    throw UserError(fmt::format("{} device{} share {} PCIe lane{}: each needs at least one", devices,
                                plural(static_cast<std::size_t>(devices)), lanes,
                                plural(static_cast<std::size_t>(lanes))));
  std::vector<int> widths(static_cast<std::size_t>(devices), width);
  for (int used = width * devices; used > lanes;) {
    // Widths never increase along the row; therefore the last of the widest ends the run at its start.
    int& widest = *std::prev(std::upper_bound(widths.begin(), widths.end(), widths.front(), std::greater<>()));
    used -= widest / 2;
    widest /= 2;
  }
  return widths;
}

bool has_lane_plan(const NodeType& node) {
  return node.interconnect != "graph" && (node.lanes_per_socket > 0 || !node.pcie_switches.empty());
}

PciePlan plan_lanes(const NodeType& node) {
  PciePlan plan;
  plan.slots = slots_of(node);
  deal_out(plan.slots, node);
  if (node.device_lanes > 0)
    for (PcieSlot& slot : plan.slots)
      if (slot.kind != DeviceKind::nvme) slot.lanes = node.device_lanes;
  if (node.lanes_per_socket > 0) share_lanes(plan, node);
  return plan;
}

BytesPerSecond lane_rate(const NodeType& node, DeviceKind kind, int lanes) {
  const bool older = kind == DeviceKind::gpu && node.gpu_pcie_rate.value > 0;
  const BytesPerSecond full = older ? node.gpu_pcie_rate : node.pcie_rate;
  return lanes == kFullWidth ? full : full * (static_cast<double>(lanes) / kFullWidth);
}

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

std::vector<DeviceId> add_pcie_tree(DeviceGraph& graph, const NodeType& type, int node) {
  const NodeAdder adder{graph, type, node};
  const std::vector<DeviceId> sockets = add_sockets(adder);
  return has_lane_plan(type) ? add_planned_devices(adder, sockets) : add_paired_devices(adder, sockets);
}

}  // namespace trainyard
