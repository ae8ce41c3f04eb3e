#pragma once
#include <array>
#include <span>
#include <vector>

#include "models/networks/mlp/mlp.hpp"

namespace trainyard {

constexpr int kLinearWays = 5;
/// What a layer takes in each way, by LinearWay, with what ranks exchange for it; infinite: it cannot be split so.
using LinearWayCosts = std::array<double, kLinearWays>;

/// How layers in a row are split, and what they take together.
struct LinearChain {
  double cost = 0;
  std::vector<LinearWay> ways;
};

/// The cheapest ways for a chain of layers before and behind which every rank has all: a layer by columns hands parts on to
/// one by rows, all others what every rank has. By dynamic programming over what lies between two layers; Alpa's
/// intra-operator pass (section 4), where the graph is a chain. An infinite cost: there are none.
LinearChain cheapest_ways(std::span<const LinearWayCosts>);

/// The same in a scenario's words, for `Sharding::linear_splits`.
std::vector<LinearSplit> splits_of(const std::vector<LinearWay>&);

}  // namespace trainyard
