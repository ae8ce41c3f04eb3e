#pragma once
#include <vector>

#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Largest number of simulated splits. If more are possible, so many are chosen at equal distances.
inline constexpr int kMostSplits = 8;

/// Simulates the loop with other numbers of nodes that generate, each with as many data ranks as its other nodes have
/// GPUs for. The scenario's own split is among them. Returns the fastest first, splits that are impossible last. Empty:
/// all GPUs do both, or there is only one split.
std::vector<PostTrainingSplit> post_training_splits(const Scenario&);

}  // namespace trainyard
