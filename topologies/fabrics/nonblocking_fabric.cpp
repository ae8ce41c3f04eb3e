#include <fmt/format.h>

#include "topologies/cluster.hpp"
#include "topologies/fabrics/tree_router.hpp"

namespace trainyard {
namespace {

/// One ideal switch with a port for every HCA: each sends and receives at its full rate, whatever the others do.
void build_nonblocking_fabric(DeviceGraph& graph, const ClusterSpec& spec) {
  const DeviceId fabric = graph.add({"fabric", DeviceKind::network_switch, -1, 0});
  for (const DeviceId hca : graph.all(DeviceKind::hca))
    graph.connect(hca, fabric, hca_wire(spec, graph.devices()[static_cast<std::size_t>(hca)].node));
  graph.set_router(tree_router(graph));
}

const RegisterBuilder<FabricBuilder> registered_nonblocking{
    fabric_builders(), "nonblocking", {build_nonblocking_fabric}};

}  // namespace
}  // namespace trainyard
