#include "models/hardware/adapter_rate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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

std::string cap_in_words(const NodeType& node, BytesPerSecond switch_rate) {
  const BytesPerSecond slot = slot_rate(node);
  const auto cap = [](const char* part, BytesPerSecond rate) {
    return fmt::format(" capped by {} at {:.4g} Gbit/s", part, rate.value * 8e-9);
  };
  if (switch_rate.value > 0 && switch_rate < slot) return cap("its switch port", switch_rate);
  return slot < node.hca_rate ? cap("its slot", slot) : "";
}

namespace {

/// Returns the NVLink rate of each GPU ("gpu0"), summed over its links.
std::map<std::string, BytesPerSecond> rates(const NodeType& node) {
  std::map<std::string, BytesPerSecond> rates;
  const auto gpu = [](int index) { return "gpu" + std::to_string(index); };
  for (int i = 0; i < node.gpus; ++i)
    rates[gpu(i)] = node.interconnect == "nvswitch" ? node.gpu.nvlink : BytesPerSecond{};
  const auto add = [&rates](const std::string& device, BytesPerSecond rate) {
    if (const auto entry = rates.find(device); entry != rates.end()) entry->second = entry->second + rate;
  };
  for (const NvlinkBundle& bundle : node.nvlink_mesh)
    for (const int end : {bundle.a, bundle.b}) add(gpu(end), node.nvlink_rate * bundle.links);
  for (const GraphWire& wire : node.wires)
    if (wire.kind == LinkKind::nvlink)
      for (const std::string& end : {wire.a, wire.b}) add(end, wire.rate);
  return rates;
}

}  // namespace

bool has_nvlink(const NodeType& node) {
  return std::ranges::any_of(rates(node), [](const auto& entry) { return entry.second.value > 0; });
}

BytesPerSecond least_nvlink(const NodeType& node) {
  const auto all = rates(node);
  if (all.empty()) return {};
  return std::ranges::min_element(all, {}, [](const auto& entry) { return entry.second.value; })->second;
}

}  // namespace trainyard
