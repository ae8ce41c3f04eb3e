#pragma once
#include "strategies/collectives/local.hpp"

namespace trainyard {

/// One step of a ring: what a rank sends to the next member, and what comes from the previous one.
struct RingStep {
  Chunk send, receive;
  bool adds = false;  ///< true: received data are added to the data there; false: they replace them
};
/// Returns a step of the ring. The result depends on `me` and `step` alone.
using RingStepOf = RingStep (*)(const Local& me, int step);

/// Yields `steps` steps of a ring, beginning with step 0. If the steps differ only in the numbers of their chunks, as
/// in most rings, all but the first few are yielded at once (Repeat).
Ops ring_steps(Local me, int steps, RingStepOf);

}  // namespace trainyard
