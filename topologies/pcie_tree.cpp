#include "topologies/pcie_tree.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

std::vector<DeviceId> add_pcie_tree(DeviceGraph& graph, const NodeType& type, int node) {
  const auto add = [&](const char* name, DeviceKind kind, int index) {
    return graph.add({fmt::format("node{}/{}{}", node, name, index), kind, node, index});
  };
  const Wire lanes{"PCIe", type.pcie_rate, type.pcie_latency};
  const DeviceId cpu = add("cpu", DeviceKind::cpu, 0);
  std::vector<DeviceId> gpus;
  for (int i = 0; i < std::max(type.gpus, type.hcas); ++i) {
    const DeviceId pcie_switch = add("pcie", DeviceKind::pcie_switch, i);
    graph.connect(pcie_switch, cpu, lanes);
    if (i < type.gpus) {
      gpus.push_back(add("gpu", DeviceKind::gpu, i));
      graph.connect(gpus.back(), pcie_switch, lanes);
    }
    if (i < type.hcas) graph.connect(add("hca", DeviceKind::hca, i), pcie_switch, lanes);
  }
  return gpus;
}

}  // namespace trainyard
