#pragma once
#include "topologies/cluster.hpp"

namespace trainyard {

/// The PCIe side that every kind of node has: its sockets, joined with each other, PCIe switches, GPUs and HCAs. Where
/// the node has no plan of its lanes, GPU i hangs behind PCIe switch i with HCA i (HCAs beyond the GPUs get a switch of
/// their own, GPUs beyond the HCAs share none), the switches dealt out to the sockets in blocks. Returns the GPUs.
std::vector<DeviceId> add_pcie_tree(DeviceGraph&, const NodeType&, int node);

/// One CPU socket, with its memory and its copies as shared links where the node's CPU limits them.
DeviceId add_socket(DeviceGraph&, const NodeType&, int node, int index);

}  // namespace trainyard
