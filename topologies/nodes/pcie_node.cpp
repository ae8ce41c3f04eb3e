#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

/// GPUs that reach each other only through their PCIe switches and the CPU.
void build_pcie_node(DeviceGraph& graph, const NodeType& type, int node) { add_pcie_tree(graph, type, node); }

const Registration<NodeBuilder> registered_pcie{node_builders(), "pcie", build_pcie_node};

}  // namespace
}  // namespace trainyard
