#include "topologies/analysis/clos_design.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {
namespace {

/// Returns true if the first design has fewer switches; if equal, fewer levels; if equal, fewer links.
bool is_better(const ClosDesign& a, const std::optional<ClosDesign>& b) {
  if (!b) return true;
  if (a.switches != b->switches) return a.switches < b->switches;
  if (a.levels.size() != b->levels.size()) return a.levels.size() < b->levels.size();
  return a.links < b->links;
}

/// Sets the totals from the levels.
void total_parts(ClosDesign& design, const ClosRequest& request) {
  design.hosts = request.hosts;
  design.switches = 0;
  for (const ClosLevel& level : design.levels) design.switches += level.switches;
  design.ports_left = design.switches * request.ports - design.hosts - 2 * design.links;
}

std::optional<ClosDesign> one_switch(const ClosRequest& request) {
  if (request.hosts > request.ports) return std::nullopt;
  ClosDesign design;
  design.levels = {{"switch", 1, static_cast<int>(request.hosts), 0}};
  total_parts(design, request);
  return design;
}

void check_request(const ClosRequest& request) {
  if (request.hosts < 1) throw UserError(fmt::format("design: {} hosts, expected 1 or more", request.hosts));
  if (request.ports < 1 || request.ports > kMostSwitchPorts)
    throw UserError(fmt::format("design: {} ports, expected 1 to {}", request.ports, kMostSwitchPorts));
  if (!(request.oversubscription >= 1 && request.oversubscription <= kMostSwitchPorts))
    throw UserError(fmt::format("design: oversubscription {}, expected 1 to {}", exact(request.oversubscription),
                                kMostSwitchPorts));
  if (request.levels < 0 || request.levels > 3)
    throw UserError(fmt::format("design: {} levels, expected 1, 2 or 3", request.levels));
  if (request.levels > 1 && request.hosts < 2)
    throw UserError(fmt::format("design: {} levels join leaves, which takes at least 2 hosts", request.levels));
}

std::int64_t most_of_three_levels(std::int64_t ports, double r) {
  // There are as many pods as a core switch has ports, and an aggregation switch for each uplink of a leaf.
  std::int64_t most = 0;
  for (std::int64_t hosts = 1; hosts < ports; ++hosts) {
    const std::int64_t uplinks = ports - hosts;
    if (uplinks < divide_links(static_cast<double>(hosts), r)) break;
    const auto fits = [&](std::int64_t leaves) {
      return leaves + divide_links(static_cast<double>(leaves * hosts) / static_cast<double>(uplinks), r) <= ports;
    };
    std::int64_t leaves = 0;
    while (leaves < ports && fits(leaves + 1)) ++leaves;
    most = std::max(most, ports * leaves * hosts);
  }
  return most;
}

}  // namespace

std::int64_t most_clos_hosts(int ports, int levels, double oversubscription) {
  std::int64_t most = 0;
  if (levels == 0 || levels == 1) most = ports;
  if (levels == 0 || levels == 2) most = std::max(most, ports * most_hosts_of_leaf(ports, oversubscription));
  if (levels == 0 || levels == 3) most = std::max(most, most_of_three_levels(ports, oversubscription));
  return most;
}

ClosDesign design_clos(const ClosRequest& request) {
  check_request(request);
  const std::int64_t most = most_clos_hosts(request.ports, request.levels, request.oversubscription);
  std::optional<ClosDesign> best;
  const auto offer = [&](int levels, const auto& build) {
    if (request.levels != 0 && request.levels != levels) return;
    const std::optional<ClosDesign> design = build();
    if (design && is_better(*design, best)) best = design;
  };
  if (request.hosts <= most) {
    offer(1, [&] { return one_switch(request); });
    if (!best) offer(2, [&] { return two_level_clos(request); });
    if (!best || best->levels.size() > 1) offer(3, [&] { return three_level_clos(request); });
  }
  if (best) return *best;
  throw UserError(fmt::format(
      "design: {} hosts are too many for switches of {}{}{}; the most is {}", request.hosts,
      counted_noun(request.ports, "port"),
      request.levels == 0 ? " in up to 3 levels" : fmt::format(" in {}", counted_noun(request.levels, "level")),
      request.oversubscription > 1 ? fmt::format(" at {}:1", exact(request.oversubscription)) : "", most));
}

std::int64_t most_hosts_of_leaf(std::int64_t ports, double r) {
  std::int64_t most = 0;
  for (std::int64_t hosts = 1; hosts < ports; ++hosts)
    if (hosts + divide_links(static_cast<double>(hosts), r) <= ports) most = hosts;
  return most;
}

void ClosSearch::offer(ClosDesign design) {
  total_parts(design, request_);
  if (is_better(design, best_)) best_ = std::move(design);
}

}  // namespace trainyard
