#pragma once
#include <span>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "sim/observers/memory_use.hpp"

namespace trainyard {

struct TrainingPlan;

/// The peak memory of a rank, which stands for all ranks with the same program and the same kind of GPU.
struct RankMemory {
  Actor rank = 0;  ///< the lowest of them
  Bytes peak;
  MemoryUse::ByClass parts{};  ///< at the peak
};

/// Returns the memory of a rank by its parts at the peak.
Result::PeakMemory peak_memory(Bytes peak, const MemoryUse::ByClass& parts);

/// Books the memory of the fullest rank, and whether the rank that is likeliest to run out of memory fits. `ranks`: at
/// least one, ascending.
void book_fullest(const Scenario&, const TrainingPlan&, std::span<const RankMemory> ranks, Result&);

}  // namespace trainyard
