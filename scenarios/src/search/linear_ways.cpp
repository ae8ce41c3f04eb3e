#include "scenarios/src/search/linear_ways.hpp"

#include <algorithm>
#include <limits>

namespace trainyard {
namespace {

constexpr double kInfiniteCost = std::numeric_limits<double>::infinity();

/// Returns true if a layer of `next` can take the activations of a layer of `way`. Only columns hand on shards, and
/// only rows take them. Gathered columns before spread rows are excluded, because a scenario would state them alike.
bool may_follow(LinearWay way, LinearWay next) {
  if (way == LinearWay::columns) return next == LinearWay::rows;
  if (next == LinearWay::rows) return false;
  return way != LinearWay::gathered_columns || next != LinearWay::spread_rows;
}

constexpr LinearWay kAllWays[kLinearWays] = {LinearWay::whole, LinearWay::columns, LinearWay::gathered_columns,
                                             LinearWay::rows, LinearWay::spread_rows};

}  // namespace

LinearChain cheapest_ways(std::span<const LinearWayCosts> layers) {
  LinearWayCosts best{};
  std::vector<std::array<LinearWay, kLinearWays>> way_before(layers.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    LinearWayCosts costs;
    costs.fill(kInfiniteCost);
    for (const LinearWay way : kAllWays) {
      const auto to = static_cast<std::size_t>(way);
      for (const LinearWay last : kAllWays) {
        const auto from = static_cast<std::size_t>(last);
        if (layer == 0 ? way == LinearWay::rows : !may_follow(last, way)) continue;
        const double cost = (layer == 0 ? 0 : best[from]) + layers[layer][to];
        if (cost >= costs[to]) continue;
        costs[to] = cost;
        way_before[layer][to] = last;
      }
    }
    best = costs;
  }
  // At the end, every rank must have the whole activation.
  if (!layers.empty()) best[static_cast<std::size_t>(LinearWay::columns)] = kInfiniteCost;
  LinearChain chain;
  auto last_way = static_cast<std::size_t>(std::min_element(best.begin(), best.end()) - best.begin());
  chain.cost = best[last_way];
  if (chain.cost == kInfiniteCost) return chain;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    chain.ways.push_back(static_cast<LinearWay>(last_way));
    last_way = static_cast<std::size_t>(way_before[layer][last_way]);
  }
  std::reverse(chain.ways.begin(), chain.ways.end());
  return chain;
}

std::vector<LinearSplit> splits_of(const std::vector<LinearWay>& ways) {
  std::vector<LinearSplit> splits;
  for (const LinearWay way : ways)
    splits.push_back(way == LinearWay::whole ? LinearSplit::replicated
                     : by_rows(way)          ? LinearSplit::rows
                                             : LinearSplit::columns);
  return splits;
}

}  // namespace trainyard
