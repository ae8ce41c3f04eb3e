#include "topologies/cluster.hpp"
#include "topologies/fabrics/fabric_rows.hpp"
#include "topologies/fabrics/tree_router.hpp"

namespace trainyard {
namespace {

/// One ideal switch with a port for every HCA: each sends and receives at its full rate, whatever the others do.
class NonblockingFabric : public Fabric {
 public:
  std::string type() const override { return "nonblocking"; }
  std::vector<LinkKind> link_kinds() const override { return {LinkKind::hca}; }
  std::vector<FabricRow> rows(const DeviceGraph& graph, const ClusterSpec&) const override {
    return level_rows(FabricView(graph));
  }

  void build(DeviceGraph& graph, const ClusterSpec& spec) const override {
    const DeviceId fabric = graph.add({"fabric", DeviceKind::network_switch, -1, 0});
    for (const DeviceId hca : graph.devices_of_kind(DeviceKind::hca))
      graph.connect(hca, fabric, hca_wire(spec, graph.devices()[hca].node));
    graph.set_router(tree_router(graph));
  }
};

std::shared_ptr<const Fabric> read_nonblocking(Fields&) { return std::make_shared<NonblockingFabric>(); }

const Registration<FabricReader> registered_nonblocking{fabric_types(), "nonblocking", read_nonblocking};

}  // namespace
}  // namespace trainyard
