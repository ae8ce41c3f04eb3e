#include <fmt/format.h>

#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

/// GPUs that reach each other only through their PCIe switches and the CPU.
void build_pcie_node(DeviceGraph& graph, const NodeType& type, int node) { add_pcie_tree(graph, type, node); }

const Registration<NodeBuilder> registered_pcie{node_builders(), "pcie", build_pcie_node};

/// NVLinks between GPUs. GPUs do not forward; GPUs without a common NVLink exchange over PCIe.
void build_nvlink_mesh_node(DeviceGraph& graph, const NodeType& type, int node) {
  const std::vector<DeviceId> gpus = add_pcie_tree(graph, type, node);
  for (const NvlinkBundle& bundle : type.nvlink_mesh)
    graph.connect(gpus.at(static_cast<std::size_t>(bundle.a)), gpus.at(static_cast<std::size_t>(bundle.b)),
                  {LinkKind::nvlink, type.nvlink_rate * bundle.links, type.nvlink_latency});
}

const Registration<NodeBuilder> registered_nvlink_mesh{node_builders(), "nvlink-mesh", build_nvlink_mesh_node};

/// All NVLinks of a GPU lead to the NVSwitches. They carry any traffic at full rate; therefore one switch stands for
/// all.
void build_nvswitch_node(DeviceGraph& graph, const NodeType& type, int node) {
  const std::vector<DeviceId> gpus = add_pcie_tree(graph, type, node);
  const DeviceId nvswitch = graph.add({fmt::format("node{}/nvswitch", node), DeviceKind::nvswitch, node, 0});
  // A hop from GPU to GPU crosses two links; an odd picosecond goes to one of them.
  const Picoseconds half{type.nvlink_latency.count / 2};
  for (const DeviceId gpu : gpus) graph.connect(gpu, nvswitch, {LinkKind::nvlink, type.gpu.nvlink, half});
}

const Registration<NodeBuilder> registered_nvswitch{node_builders(), "nvswitch", build_nvswitch_node};

}  // namespace

}  // namespace trainyard
