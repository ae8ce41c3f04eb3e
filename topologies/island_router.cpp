#include "topologies/island_router.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/index.hpp"

namespace trainyard {
namespace {

class IslandRouter : public FabricRouter {
 public:
  IslandRouter(const DeviceGraph& graph, std::vector<JoinedFabric> fabrics)
      : fabrics_(std::move(fabrics)), fabric_of_(graph.devices().size(), nullptr) {
    std::map<int, const JoinedFabric*> by_island;
    for (const JoinedFabric& fabric : fabrics_) {
      by_island[graph.devices()[position(fabric.top)].island] = &fabric;
      for (const DeviceId end : fabric.ends) fabric_of_[position(end)] = &fabric;
    }
    for (const DeviceId each : graph.devices_of_kind(DeviceKind::network_switch))
      fabric_of_[position(each)] = by_island.at(graph.devices()[position(each)].island);
  }

  bool path(const DeviceGraph& graph, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const override {
    return flow_path(graph, from, to, 0, wires);
  }
  int flows() const override {
    int all = 1;
    for (const JoinedFabric& fabric : fabrics_) all = std::lcm(all, fabric.router->flows());
    return all;
  }
  bool flow_path(const DeviceGraph& graph, DeviceId from, DeviceId to, int flow,
                 std::vector<LinkId>& wires) const override {
    return cross(from, to, wires, [&](const FabricRouter& router, DeviceId a, DeviceId b, bool) {
      return router.flow_path(graph, a, b, flow % router.flows(), wires);
    });
  }

  bool chooses_paths() const override {
    return std::ranges::any_of(fabrics_, [](const JoinedFabric& fabric) { return fabric.router->chooses_paths(); });
  }
  /// A message between two fabrics chooses again as often as the one that chooses more often.
  Bytes flowlet(DeviceId from, DeviceId to) const override {
    Bytes least;
    for (const JoinedFabric* fabric : {fabric_of_[position(from)], fabric_of_[position(to)]})
      if (const Bytes size = fabric ? fabric->router->flowlet(from, to) : Bytes{}; size.value > 0)
        least = least.value > 0 ? std::min(least, size) : size;
    return least;
  }
  int choices(DeviceId from, DeviceId to) const override {
    const JoinedFabric *a = fabric_of_[position(from)], *b = fabric_of_[position(to)];
    if (!a || !b) return 1;
    if (a == b) return a->router->choices(from, to);
    return std::min(kMostChoices, a->router->choices(from, a->top) * b->router->choices(b->top, to));
  }
  /// The choices of both fabrics are combined so that each of both is taken equally often.
  bool choice(const DeviceGraph& graph, DeviceId from, DeviceId to, int number,
              std::vector<LinkId>& wires) const override {
    const JoinedFabric* a = fabric_of_[position(from)];
    const int of_first = a ? std::max(1, a->router->choices(from, a->top)) : 1;
    return cross(from, to, wires, [&](const FabricRouter& router, DeviceId start, DeviceId end, bool is_second) {
      const int chosen = is_second ? number % of_first + number / of_first : number;
      return router.choice(graph, start, end, chosen % std::max(1, router.choices(start, end)), wires);
    });
  }

 private:
  static constexpr int kMostChoices = 64;
  std::vector<JoinedFabric> fabrics_;
  std::vector<const JoinedFabric*> fabric_of_;  // indexed by device; null: it is part of no fabric

  /// Finds the path within one fabric, or those in both: `find` gets `true` for the second of two.
  template <class Find>
  bool cross(DeviceId from, DeviceId to, std::vector<LinkId>& wires, Find find) const {
    const JoinedFabric *a = fabric_of_[position(from)], *b = fabric_of_[position(to)];
    if (!a || !b) return false;
    if (a == b) return find(*a->router, from, to, false);
    const std::size_t before = wires.size();
    bool is_found = from == a->top || find(*a->router, from, a->top, false);
    if (a->cables >= 0) wires.push_back(a->cables);
    if (b->cables >= 0) wires.push_back(b->cables ^ 1);
    is_found = is_found && (to == b->top || find(*b->router, b->top, to, true));
    if (!is_found) wires.resize(before);
    return is_found;
  }
};

class ShortestPathsRouter : public FabricRouter {
 public:
  ShortestPathsRouter(DeviceGraph& graph, const JoinedFabric& fabric) : top_(fabric.top) {
    for (const DeviceId end : fabric.ends)
      if (const auto wires = graph.path(top_, end, PathClass::fabric)) down_[end] = *wires;
  }

  bool path(const DeviceGraph&, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const override {
    const auto found = down_.find(from == top_ ? to : from);
    if ((from != top_ && to != top_) || found == down_.end()) return false;
    if (from == top_)
      wires.insert(wires.end(), found->second.begin(), found->second.end());
    else
      for (auto wire = found->second.rbegin(); wire != found->second.rend(); ++wire) wires.push_back(*wire ^ 1);
    return true;
  }

 private:
  DeviceId top_;
  std::map<DeviceId, std::vector<LinkId>> down_;  // indexed by end: from the top
};

}  // namespace

std::unique_ptr<FabricRouter> island_router(const DeviceGraph& graph, std::vector<JoinedFabric> fabrics) {
  return std::make_unique<IslandRouter>(graph, std::move(fabrics));
}

std::unique_ptr<FabricRouter> shortest_paths_router(DeviceGraph& graph, const JoinedFabric& fabric) {
  return std::make_unique<ShortestPathsRouter>(graph, fabric);
}

}  // namespace trainyard
