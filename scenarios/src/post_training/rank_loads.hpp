#pragma once
#include "models/networks/layers/network.hpp"
#include "scenarios/src/reading/read_post_training.hpp"

namespace trainyard {

/// Times of a step whose ranks keep samples of different lengths, over the times with as many equal samples.
struct RankLoads {
  double training = 1;  ///< time of all optimizer steps, each of which lasts as long as its fullest rank
  double passes = 1;    ///< time of a forward pass over all samples
};

/// Deals the samples of a step to the ranks, equally many to each and about as many tokens. A rank's samples keep their
/// order, in which the optimizer steps take them, so that those of one step differ from rank to rank. Work grows with the
/// tokens, and that of attention with their square. Without dynamic batches, all samples are alike.
RankLoads rank_loads(const PostTrainingChoice&, const Network&, int ranks);

}  // namespace trainyard
