#pragma once
#include <vector>

#include "scenarios/answer/result.hpp"
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// The changes that a planner would try for a plan that does not fit, each simulated with no more micro-batches than
/// memory depends on (twice the pipeline's virtual stages): more recomputation, the next ZeRO stages, offload, sequence
/// parallelism, smaller micro-batches, twice as many tensor or pipeline ranks. What a plan refuses is left out.
std::vector<FittingChange> fitting_changes(const Scenario&);

}  // namespace trainyard
