#include "sim/machine.hpp"

#include <algorithm>
#include <array>

#include "sim/group_balance.hpp"
#include "sim/index.hpp"
#include "sim/program.hpp"

namespace trainyard {

void add_use(std::vector<LinkUse>& uses, LinkId link, double weight) {
  const auto present = std::ranges::find_if(uses, [link](const LinkUse& use) { return use.link == link; });
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

namespace {

/// Chooses as `least_loaded` does, and among equals the route with the least load by `others`.
const Route& least_loaded_of(std::span<const Route> choices, const LinkLoads& loads, std::span<const Link> links,
                             const LinkLoads& others) {
  using Score = std::array<double, 4>;  // busiest link and sum by `loads`, then by `others`
  const auto score_of = [&](const Route& route) {
    Score score{};
    for (const LinkUse& use : route.links) {
      const auto link = static_cast<std::size_t>(use.link);
      const double capacity = links[link].capacity.value;
      const double load = ((link < loads.size() ? loads[link] : 0) + use.weight) / capacity;
      const double other = link < others.size() ? others[link] / capacity : 0;
      score = {std::max(score[0], load), score[1] + load, std::max(score[2], other), score[3] + other};
    }
    return score;
  };
  const Route* best = nullptr;
  Score least{};
  for (const Route& route : choices)
    if (const Score score = score_of(route); !best || score < least) {
      best = &route;
      least = score;
    }
  return *best;
}

}  // namespace

const Route& least_loaded(std::span<const Route> choices, const LinkLoads& loads, std::span<const Link> links) {
  return least_loaded_of(choices, loads, links, {});
}

GroupBalance::Wave& GroupBalance::wave_of(const GroupFlow& group) {
  const auto has = [](const Wave& wave, Actor actor) {
    return position(actor) < wave.has_actor.size() && wave.has_actor[position(actor)];
  };
  const auto is_free = [&](const Wave& wave) {
    return std::ranges::none_of(
        group.edges, [&](const GroupFlow::Edge& edge) { return has(wave, edge.from) || has(wave, edge.to); });
  };
  const auto found = std::ranges::find_if(waves_, is_free);
  Wave& wave = found != waves_.end() ? *found : waves_.emplace_back();
  for (const GroupFlow::Edge& edge : group.edges) {
    const std::size_t needed = position(std::max(edge.from, edge.to)) + 1;
    if (wave.has_actor.size() < needed) wave.has_actor.resize(needed);
    wave.has_actor[position(edge.from)] = wave.has_actor[position(edge.to)] = true;
  }
  return wave;
}

GroupRoute route_of_group(const Machine& machine, const GroupFlow& group) {
  GroupBalance alone;
  return route_of_group(machine, group, alone);
}

GroupRoute route_of_group(const Machine& machine, const GroupFlow& group, GroupBalance& balance) {
  GroupRoute merged;
  std::vector<LinkUse>& links = merged.links;
  GroupBalance::Wave* wave = nullptr;  // if the network chooses paths
  for (const GroupFlow::Edge& edge : group.edges) {
    machine.visit_route(edge.from, edge.to, PathClass::automatic, [&](const Route& own) {
      if (own.alternatives && !wave) wave = &balance.wave_of(group);
      // Flowlets distribute the edge's bytes over the paths; a message takes one of them.
      const std::size_t parts = own.alternatives && own.flowlet.value > 0 ? own.alternatives->size() : 1;
      const double weight = edge.weight / static_cast<double>(parts);
      for (std::size_t part = 0; part < parts; ++part) {
        const Route& route =
            own.alternatives ? least_loaded_of(*own.alternatives, wave->loads, machine.links(), balance.total) : own;
        if (own.alternatives) {
          add_load(wave->loads, route.links, weight);
          add_load(balance.total, route.links, weight);
        }
        merged.reachable = merged.reachable && route.reachable;
        merged.slow = merged.slow || route.slow;
        if (group.by_engines) merged.latency = std::max(merged.latency, route.latency);
        for (const LinkUse& use : route.links) links.push_back({use.link, use.weight * weight});
      }
    });
  }
  std::ranges::stable_sort(links, [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
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
