#pragma once
#include "strategies/collectives/collective.hpp"
#include "strategies/collectives/ring_step.hpp"

namespace trainyard {

// One ring through all members of a view, on one channel. Algorithms that consist of rings share these functions.

/// 2(n−1) steps: a reduce-scatter, then an all-gather. Each rank sends 2(n−1)/n of the data. After the reduce-scatter,
/// rank i owns chunk i+1.
Ops one_ring_all_reduce(Local);
/// n−1 steps. Every block travels round the ring, each rank adds its own data, and the block ends at its rank.
Ops one_ring_reduce_scatter(Local);
/// n−1 steps; every block travels round the ring.
Ops one_ring_all_gather(Local);

}  // namespace trainyard
