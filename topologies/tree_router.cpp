#include "topologies/tree_router.hpp"

namespace trainyard {
namespace {

class TreeRouter : public FabricRouter {
 public:
  explicit TreeRouter(const DeviceGraph& graph) : up_(graph.devices().size(), -1), depth_(up_.size(), 0) {
    // Fabrics connect the lower device of a wire first. Depths count from the top down.
    const auto kind = [&graph](DeviceId id) { return graph.devices()[id].kind; };
    for (std::size_t w = 0; w < graph.wires().size(); ++w) {
      const auto wire = static_cast<LinkId>(w);
      const DeviceGraph::End end = graph.ends(wire);
      const bool inside = kind(end.from) == DeviceKind::network_switch || kind(end.from) == DeviceKind::hca;
      if (inside && end.to > end.from && kind(end.to) == DeviceKind::network_switch) up_[end.from] = wire;
    }
    for (std::size_t id = up_.size(); id-- > 0;)
      if (const LinkId wire = up_[id]; wire >= 0) depth_[id] = depth_[graph.ends(wire).to] + 1;
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
  std::vector<LinkId> up_;  // indexed by device; −1: it is the top, or not part of the fabric
  std::vector<int> depth_;  // below the top
};

}  // namespace

std::unique_ptr<FabricRouter> tree_router(const DeviceGraph& graph) { return std::make_unique<TreeRouter>(graph); }

}  // namespace trainyard
