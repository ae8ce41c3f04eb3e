#include "topologies/fabrics/tree_router.hpp"

#include <algorithm>

namespace trainyard {
namespace {

class TreeRouter : public FabricRouter {
 public:
  explicit TreeRouter(const DeviceGraph& graph) : up_(graph.devices().size(), -1), depth_(up_.size(), 0) {
    // From what is below to what is above, as they were connected; depths from the top down.
    std::vector<DeviceId> order;
    for (std::size_t id = 0; id < up_.size(); ++id) {
      const DeviceKind kind = graph.devices()[id].kind;
      if (kind == DeviceKind::network_switch || kind == DeviceKind::hca) order.push_back(static_cast<DeviceId>(id));
    }
    for (const DeviceId id : order)
      for (const LinkId wire : graph.links_from(id)) {
        const DeviceId to = graph.ends(wire).to;
        const bool above = to > id && graph.devices()[to].kind == DeviceKind::network_switch;
        if (above) up_[id] = wire;
      }
    for (auto id = order.rbegin(); id != order.rend(); ++id)
      if (const LinkId wire = up_[*id]; wire >= 0) depth_[*id] = depth_[graph.ends(wire).to] + 1;
  }

  bool path(const DeviceGraph& graph, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const override {
    std::vector<LinkId> down;
    while (from != to) {
      const bool climb = depth_[from] >= depth_[to];
      DeviceId& end = climb ? from : to;
      const LinkId wire = up_[end];
      if (wire < 0) return false;
      (climb ? wires : down).push_back(climb ? wire : wire ^ 1);
      end = graph.ends(wire).to;
    }
    wires.insert(wires.end(), down.rbegin(), down.rend());
    return true;
  }

 private:
  std::vector<LinkId> up_;  // of each device, −1: it is the top, or no part of the fabric
  std::vector<int> depth_;  // below the top
};

}  // namespace

std::unique_ptr<FabricRouter> tree_router(const DeviceGraph& graph) { return std::make_unique<TreeRouter>(graph); }

}  // namespace trainyard
