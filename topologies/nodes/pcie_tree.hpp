#pragma once
#include <vector>

#include "models/hardware/node.hpp"
#include "topologies/cluster.hpp"
#include "topologies/device_graph.hpp"

namespace trainyard {

/// The widths that `devices` slots of `width` lanes get from `lanes`: powers of two. The last one of the widest is
/// halved until all fit, so that the first devices keep most (16 lanes: 16 · 8/8 · 8/4/4 · 4/4/4/4). `width` is a power
/// of two. Throws UserError if there is not even one lane for each.
std::vector<int> bifurcate(int lanes, int devices, int width);

/// Position of a device: at a root port of `socket`, or behind a switch that is attached to it.
struct PcieSlot {
  DeviceKind kind = DeviceKind::gpu;
  int index = 0;
  int socket = 0;
  int pcie_switch = -1;  ///< −1: at a root port
  int lanes = kFullWidth;
};

struct PciePlan {
  std::vector<PcieSlot> slots;  ///< GPUs, then HCAs, then NVMe drives
  std::vector<int> lanes_left;  ///< indexed by socket; empty if the sockets have no limit
};

/// Returns true if the node specifies the use of its PCIe lanes. Otherwise each GPU has a switch and there are enough
/// lanes, or the node is specified wire by wire.
bool has_lane_plan(const NodeType&);

/// Plans the lanes. GPUs and HCAs that are not behind a switch are dealt out to the sockets in blocks. They share the
/// lanes that the switches' uplinks do not use. Throws UserError if a socket has too few lanes, with the number of
/// lanes that are needed, the number that exist, and the number of devices that fit.
PciePlan plan_lanes(const NodeType&);

/// Rate of `lanes` lanes of the node, or of the GPU's own lanes if that is slower.
BytesPerSecond lane_rate(const NodeType&, DeviceKind, int lanes);

/// Adds the PCIe part of any kind of node: its sockets, joined with each other, PCIe switches, GPUs, HCAs and drives. If
/// the node has no plan of its lanes, GPU i is attached to PCIe switch i together with HCA i. If there are more HCAs
/// than GPUs, each switch has a block of neighbouring HCAs instead. The switches are dealt out to the sockets in blocks.
/// Returns the GPUs.
std::vector<DeviceId> add_pcie_tree(DeviceGraph&, const NodeType&, int node);

/// Adds one CPU socket, with its memory and its copies as shared links if the node's CPU limits them.
DeviceId add_socket(DeviceGraph&, const NodeType&, int node, int index);

}  // namespace trainyard
