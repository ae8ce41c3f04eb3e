#pragma once
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Tries changes that may make a plan fit, at the same global batch: more recomputation, the next ZeRO stages, offload,
/// sequence parallelism, smaller micro-batches, twice as many tensor or pipeline ranks. If none of them is enough, it
/// tries the same on top of the change that needs least memory, with offload and without. Each change is simulated. If
/// a step is too large for that, only its memory is simulated, with at most twice as many micro-batches as virtual
/// stages: more micro-batches need no more memory. Changes that the planner refuses are left out. The fastest change
/// that fits comes first; changes that do not fit follow, least memory first.
std::vector<FittingChange> fitting_changes(const Scenario&);

}  // namespace trainyard
