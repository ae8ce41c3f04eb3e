#include "sim/machine.hpp"

#include <algorithm>

#include "sim/program.hpp"

namespace trainyard {

Seconds Route::fill_time() const {
  double sum = 0, slowest = 0;
  for (const Leg& leg : legs) {
    sum += leg.seconds_per_byte;
    slowest = std::max(slowest, leg.seconds_per_byte);
  }
  return Seconds{chunk.value * (sum - slowest)};
}

GroupRoute route_of_group(const Machine& machine, const GroupFlow& group) {
  GroupRoute whole;
  std::vector<LinkUse>& links = whole.links;
  for (const GroupFlow::Edge& edge : group.edges) {
    const Route route = machine.route(edge.from, edge.to, PathClass::automatic);
    whole.reachable = whole.reachable && route.reachable;
    if (group.by_engines) whole.latency = std::max(whole.latency, route.latency);
    for (const LinkUse& use : route.links) links.push_back({use.link, use.weight * edge.weight});
  }
  std::stable_sort(links.begin(), links.end(), [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (kept > 0 && links[kept - 1].link == links[i].link)
      links[kept - 1].weight += links[i].weight;
    else
      links[kept++] = links[i];
  links.resize(kept);
  return whole;
}

}  // namespace trainyard
