#include "topologies/nodes/pcie_lanes.hpp"

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
  std::string text;
  if (need.devices > 0) text = fmt::format("{} device{} at x{}", need.devices, plural(need.devices), width);
  if (need.uplinks > 0)
    text += fmt::format("{}{} switch uplink{}", text.empty() ? "" : " and ", need.uplinks, plural(need.uplinks));
  if (need.drives > 0)
    text += fmt::format("{}{} NVMe drive{}", text.empty() ? "" : " and ", need.drives, plural(need.drives));
  return text;
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

}  // namespace trainyard
