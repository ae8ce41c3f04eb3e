#pragma once
#include <cstdint>
#include <functional>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

struct TrainingPlan;

/// Returns the peak memory of a plan of equal replicas, simulated for one replica on a node of the scenario: all of them
/// use the same memory, and messages use no memory besides the buckets.
Bytes peak_memory_alone(const Scenario&, TrainingPlan);

/// Returns the largest integer from 0 on that fits, starting the search at `guess`. If a number fits, all smaller ones
/// must fit too.
std::int64_t largest_that_fits(std::int64_t guess, const std::function<bool(std::int64_t)>& fits);

/// Finds the largest sizes that fit. It reads the scenario again with other sizes and simulates their memory. A size
/// that the reader refuses does not fit.
Capacity capacity(const Scenario&);

}  // namespace trainyard
