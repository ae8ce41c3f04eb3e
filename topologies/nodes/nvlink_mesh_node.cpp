
#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

/// NVLinks between GPUs. GPUs do not forward; GPUs without a common NVLink exchange over PCIe.
void build_nvlink_mesh_node(DeviceGraph& graph, const NodeType& type, int node) {
  const std::vector<DeviceId> gpus = add_pcie_tree(graph, type, node);
  for (const NvlinkBundle& bundle : type.nvlink_mesh)
    graph.connect(gpus.at(static_cast<std::size_t>(bundle.a)), gpus.at(static_cast<std::size_t>(bundle.b)),
                  {LinkKind::nvlink, type.nvlink_rate * bundle.links, type.nvlink_latency});
}

const Registration<NodeBuilder> registered_nvlink_mesh{node_builders(), "nvlink-mesh", build_nvlink_mesh_node};

}  // namespace
}  // namespace trainyard
