#include "models/hardware/adapter_rate.hpp"

#include <algorithm>

namespace trainyard {

BytesPerSecond slot_rate(const NodeType& node) {
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

BytesPerSecond delivered_rate(const NodeType& node, BytesPerSecond rate) {
  const Picoseconds one_way = node.hca_latency * 2 + node.network.fabric_latency;
  return delivered_rate(rate, node.network.loss, (one_way * 2).seconds());
}

BytesPerSecond adapter_rate(const NodeType& node) { return delivered_rate(node, slot_rate(node)); }

}  // namespace trainyard
