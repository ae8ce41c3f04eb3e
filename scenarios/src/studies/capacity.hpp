#pragma once
#include <cstdint>
#include <functional>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

struct TrainingPlan;

/// The most memory that a rank holds at any moment of the step, simulated on one device: ranks of data parallelism hold
/// the same, and messages take no memory beside the buckets.
Bytes peak_memory(const Scenario&);
/// The same of a plan of replicas alike, run by one of them on a node of the scenario's.
Bytes peak_memory_alone(const Scenario&, TrainingPlan);

/// The largest whole number from 0 that fits, where all below one that fits do; `guess` is where the search begins.
std::int64_t largest_that_fits(std::int64_t guess, const std::function<bool(std::int64_t)>& fits);

/// Searches by reading the scenario again with other sizes and simulating what it then holds. A size that the reader
/// refuses does not fit.
Capacity capacity(const Scenario&);

}  // namespace trainyard
