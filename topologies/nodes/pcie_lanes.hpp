#pragma once
#include <vector>

#include "models/hardware/node.hpp"
#include "topologies/device_graph.hpp"

namespace trainyard {

/// The widths that `devices` slots of `width` lanes get from `lanes`: powers of two, the last of the widest halved
/// until all fit, so that the first devices keep most (16 lanes: 16 · 8/8 · 8/4/4 · 4/4/4/4). `width` is a power of
/// two. Throws UserError where not even one lane each is there.
std::vector<int> bifurcate(int lanes, int devices, int width);

/// Where a device hangs: at a root port of `socket`, or behind a switch that does.
struct PcieSlot {
  DeviceKind kind = DeviceKind::gpu;
  int index = 0;
  int socket = 0;
  int pcie_switch = -1;  ///< −1: at a root port
  int lanes = kFullWidth;
};

struct PciePlan {
  std::vector<PcieSlot> slots;  ///< GPUs, then HCAs, then NVMe drives
  std::vector<int> lanes_left;  ///< by socket; empty where the sockets have no limit
};

/// Whether the node says how its PCIe lanes are used. If not, it has a switch a GPU and lanes enough, or is given wire by
/// wire.
bool has_lane_plan(const NodeType&);

/// GPUs and HCAs behind no switch are dealt out to the sockets in blocks, and share what lanes the switches' uplinks
/// leave. Throws UserError where a socket has too few: how many are needed, how many there are, how many devices fit.
PciePlan plan_lanes(const NodeType&);

/// Rate of `lanes` lanes of the node, or of the GPU's own if that is slower.
BytesPerSecond lane_rate(const NodeType&, DeviceKind, int lanes);

}  // namespace trainyard
