#pragma once
#include "strategies/collectives/collective.hpp"
#include "strategies/collectives/ring_step.hpp"

namespace trainyard {

// One ring through all members of a view, on one channel: what the algorithms that are made of rings share.

/// 2(n−1) steps: reduce-scatter, then all-gather; each rank sends 2(n−1)/n of the data. After the reduce-scatter, rank i
/// owns chunk i+1.
Ops one_ring_all_reduce(Local);
/// n−1 steps; every block goes all the way round, and each rank adds what it has. It ends where it belongs.
Ops one_ring_reduce_scatter(Local);
/// n−1 steps; every block goes all the way round.
Ops one_ring_all_gather(Local);

}  // namespace trainyard
