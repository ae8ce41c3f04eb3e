#pragma once
#include "topologies/cluster.hpp"

namespace trainyard {

/// Adds the PCIe part of any kind of node: its sockets, joined with each other, PCIe switches, GPUs, HCAs and drives. If
/// the node has no plan of its lanes, GPU i is attached to PCIe switch i together with HCA i. If there are more HCAs
/// than GPUs, each switch has a block of neighbouring HCAs instead. The switches are dealt out to the sockets in blocks.
/// Returns the GPUs.
std::vector<DeviceId> add_pcie_tree(DeviceGraph&, const NodeType&, int node);

/// Adds one CPU socket, with its memory and its copies as shared links if the node's CPU limits them.
DeviceId add_socket(DeviceGraph&, const NodeType&, int node, int index);

}  // namespace trainyard
