#include "models/hardware/adapter_rate.hpp"

#include <algorithm>

namespace trainyard {

BytesPerSecond adapter_rate(const NodeType& node) {
  BytesPerSecond slot;
  if (node.interconnect == "graph") {
    for (const GraphWire& wire : node.wires)
      if (wire.a.starts_with("hca") || wire.b.starts_with("hca")) slot = std::max(slot, wire.rate);
  } else {
    const int lanes = node.device_lanes > 0 ? node.device_lanes : kFullWidth;
    slot = node.pcie_rate * (static_cast<double>(lanes) / kFullWidth);
  }
  return slot.value > 0 ? std::min(node.hca_rate, slot) : node.hca_rate;
}

}  // namespace trainyard
