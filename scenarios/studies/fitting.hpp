#pragma once
#include <string>
#include <vector>

#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// One change of a plan, and the peak memory that simulating it again gives.
struct FittingChange {
  Overrides overrides;
  double peak = 0;  ///< bytes, of the fullest rank
  bool fits = false;
};

/// The changes that a planner would try for a plan that does not fit, each simulated with no more micro-batches than
/// memory depends on (twice the pipeline's virtual stages): more recomputation, the next ZeRO stages, offload, sequence
/// parallelism, smaller micro-batches, twice as many tensor or pipeline ranks. What a plan refuses is left out.
std::vector<FittingChange> fitting_changes(const Scenario&);

/// "plan.recompute=full".
std::string in_words(const Overrides&);

}  // namespace trainyard
