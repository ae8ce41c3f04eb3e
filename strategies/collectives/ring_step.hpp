#pragma once
#include "strategies/collectives/local.hpp"

namespace trainyard {

/// One step of a ring: what a rank sends to the next member, and what comes from the previous one.
struct RingStep {
  Chunk send, receive;
  bool adds = false;  ///< what comes is added to what is there; false: it replaces that
};
/// A step by its number. It depends on these two alone.
using RingStepOf = RingStep (*)(const Local& me, int step);

/// So many steps of a ring, the first of number 0. Where they differ by the numbers of their chunks alone, as in most rings,
/// all but the first few are yielded at once (Repeat).
Ops ring_steps(Local me, int steps, RingStepOf);

}  // namespace trainyard
