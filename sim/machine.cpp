#include "sim/machine.hpp"

#include <algorithm>

#include "sim/program.hpp"

namespace trainyard {

void add_use(std::vector<LinkUse>& uses, LinkId link, double weight) {
  const auto present = std::find_if(uses.begin(), uses.end(), [link](const LinkUse& use) { return use.link == link; });
  if (present == uses.end())
    uses.push_back({link, weight});
  else
    present->weight += weight;
}

Seconds Route::fill_time() const {
  double sum = 0, slowest = 0;
  for (const Leg& leg : legs) {
    sum += leg.seconds_per_byte;
    slowest = std::max(slowest, leg.seconds_per_byte);
  }
  return Seconds{chunk.value * (sum - slowest)};
}

void add_load(LinkLoads& loads, std::span<const LinkUse> links, double factor) {
  for (const LinkUse& use : links) {
    const auto link = static_cast<std::size_t>(use.link);
    if (loads.size() <= link) loads.resize(link + 1, 0);
    loads[link] += use.weight * factor;
  }
}

const Route& least_loaded(std::span<const Route> choices, const LinkLoads& loads, std::span<const Link> links) {
  const Route* best = nullptr;
  double least_most = 0, least_sum = 0;
  for (const Route& route : choices) {
    double most = 0, sum = 0;
    for (const LinkUse& use : route.links) {
      const auto link = static_cast<std::size_t>(use.link);
      const double load = ((link < loads.size() ? loads[link] : 0) + use.weight) / links[link].capacity.value;
      most = std::max(most, load);
      sum += load;
    }
    if (best && (most > least_most || (most == least_most && sum >= least_sum))) continue;
    best = &route;
    least_most = most;
    least_sum = sum;
  }
  return *best;
}

GroupRoute route_of_group(const Machine& machine, const GroupFlow& group) {
  GroupRoute merged;
  std::vector<LinkUse>& links = merged.links;
  LinkLoads loads;  // loads by the edges so far, between which the network balances its paths
  for (const GroupFlow::Edge& edge : group.edges) {
    machine.visit_route(edge.from, edge.to, PathClass::automatic, [&](const Route& own) {
      // Flowlets distribute the edge's bytes over the paths; a message takes one of them.
      const std::size_t parts = own.alternatives && own.flowlet.value > 0 ? own.alternatives->size() : 1;
      const double weight = edge.weight / static_cast<double>(parts);
      for (std::size_t part = 0; part < parts; ++part) {
        const Route& route = own.alternatives ? least_loaded(*own.alternatives, loads, machine.links()) : own;
        if (own.alternatives) add_load(loads, route.links, weight);
        merged.reachable = merged.reachable && route.reachable;
        if (group.by_engines) merged.latency = std::max(merged.latency, route.latency);
        for (const LinkUse& use : route.links) links.push_back({use.link, use.weight * weight});
      }
    });
  }
  std::stable_sort(links.begin(), links.end(), [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
  std::size_t merged_count = 0;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (merged_count > 0 && links[merged_count - 1].link == links[i].link)
      links[merged_count - 1].weight += links[i].weight;
    else
      links[merged_count++] = links[i];
  links.resize(merged_count);
  return merged;
}

}  // namespace trainyard
