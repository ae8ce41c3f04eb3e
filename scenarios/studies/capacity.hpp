#pragma once
#include <cstdint>
#include <functional>

#include "scenarios/answer/result.hpp"
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// The most memory that a rank holds at any moment of the step, simulated on one device: ranks of data parallelism hold
/// the same, and messages take no memory beside the buckets.
Bytes peak_memory(const Scenario&);

/// The largest whole number from 0 that fits, where all below one that fits do; `guess` is where the search begins.
std::int64_t largest_that_fits(std::int64_t guess, const std::function<bool(std::int64_t)>& fits);

/// Searches by reading the scenario again with other sizes and simulating what it then holds. A size that the reader
/// refuses does not fit.
Capacity capacity(const Scenario&);

}  // namespace trainyard
