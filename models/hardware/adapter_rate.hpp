#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Returns the rate at which an HCA of the node sends and receives: the lower of its own rate and the rate of its PCIe
/// slot. A slot has the node's `device_lanes` (16 lanes if not stated). In a "graph" node the slot is the fastest wire
/// of an HCA.
BytesPerSecond adapter_rate(const NodeType&);

}  // namespace trainyard
