#pragma once
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// The changes that a planner would try for a plan that does not fit, each simulated with the same global batch: more
/// recomputation, the next ZeRO stages, offload, sequence parallelism, smaller micro-batches, twice as many tensor or
/// pipeline ranks; where none of them is enough, the same on top of the one that needs least memory, with offload and without. Of steps too large to
/// simulate again and again the memory alone is known, by no more micro-batches than it depends on (twice the pipeline's
/// virtual stages). What a plan refuses is left out. The fastest that fits comes first, then what needs least memory.
std::vector<FittingChange> fitting_changes(const Scenario&);

}  // namespace trainyard
