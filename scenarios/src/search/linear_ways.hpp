#pragma once
#include <array>
#include <span>
#include <vector>

#include "models/networks/mlp/mlp.hpp"

namespace trainyard {

constexpr int kLinearWays = 5;
/// Cost of a layer for each LinearWay, including its communication; infinite: the layer cannot be split in this way.
using LinearWayCosts = std::array<double, kLinearWays>;

/// The splits of consecutive layers and their total cost.
struct LinearChain {
  double cost = 0;
  std::vector<LinearWay> ways;
};

/// Finds the cheapest splits of a chain of layers. Before and after the chain, every rank has the whole activation. A
/// layer split by columns hands shards to a layer split by rows; all other layers hand on whole activations. The
/// method is a dynamic program over the layout between two layers, as in Alpa's intra-operator pass (section 4). The
/// cost is infinite if there is no legal split.
LinearChain cheapest_ways(std::span<const LinearWayCosts>);

/// Converts ways to the splits of a scenario, for `Sharding::linear_splits`.
std::vector<LinearSplit> splits_of(const std::vector<LinearWay>&);

}  // namespace trainyard
