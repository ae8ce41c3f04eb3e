#pragma once
#include "topologies/cluster.hpp"

namespace trainyard {

/// The PCIe side that every kind of node has: one CPU; GPU i behind PCIe switch i with HCA i (HCAs beyond the GPUs get a
/// switch of their own, GPUs beyond the HCAs share none). Returns the GPUs.
std::vector<DeviceId> add_pcie_tree(DeviceGraph&, const NodeType&, int node);

}  // namespace trainyard
