#include "topologies/cluster.hpp"
#include "topologies/fabrics/fabric_rows.hpp"
#include "topologies/tree_router.hpp"

namespace trainyard {
namespace {

/// One ideal switch with a port for every HCA: each sends and receives at its full rate, whatever the others do.
class NonblockingFabric : public Fabric {
 public:
  std::string type() const override { return "nonblocking"; }
  bool has_top() const override { return true; }
  std::vector<LinkKind> link_kinds() const override { return {LinkKind::hca}; }
  std::vector<FabricRow> rows(const DeviceGraph& graph, const ClusterSpec& spec) const override {
    return level_rows(FabricView(graph, spec));
  }

  void build(DeviceGraph& graph, const ClusterSpec& spec) const override {
    const DeviceId fabric = graph.add(fabric_switch(spec, "fabric", 0));
    for (const DeviceId hca : fabric_hcas(graph, spec))
      graph.connect(hca, fabric, hca_wire(spec, graph.devices()[hca].node));
    graph.set_router(tree_router(graph));
  }
};

std::shared_ptr<const Fabric> read_nonblocking(Fields&) { return std::make_shared<NonblockingFabric>(); }

const Registration<FabricReader> registered_nonblocking{fabric_types(), "nonblocking", read_nonblocking};

}  // namespace
}  // namespace trainyard
