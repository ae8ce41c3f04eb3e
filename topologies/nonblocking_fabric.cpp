#include <fmt/format.h>

#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

/// One ideal switch with a port for every HCA: each sends and receives at its full rate, whatever the others do.
void build_nonblocking_fabric(DeviceGraph& graph, const ClusterSpec& spec) {
  const DeviceId fabric = graph.add({"fabric", DeviceKind::network_switch, -1, 0});
  // The two wires of a path share the switch's latency, as its ports do.
  const Picoseconds wire = spec.node.hca_latency + Picoseconds{spec.switch_latency.count / 2};
  for (const DeviceId hca : graph.all(DeviceKind::hca)) graph.connect(hca, fabric, {"HCA", spec.node.hca_rate, wire});
}

const RegisterBuilder<FabricBuilder> registered_nonblocking{
    fabric_builders(), "nonblocking", {build_nonblocking_fabric}};

}  // namespace
}  // namespace trainyard
