#pragma once
#include <optional>
#include <span>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "sim/observers/memory_use.hpp"

namespace trainyard {

struct TrainingPlan;

/// The peak memory of a rank, which stands for all ranks with the same program and the same kind of GPU.
struct RankMemory {
  Actor rank = 0;  ///< the lowest of them
  Bytes peak;
  MemoryUse::ByClass parts{};  ///< at the peak
};

/// Books the memory of the fullest rank, and whether the rank that is likeliest to run out of memory fits. `ranks`: at
/// least one, ascending.
void book_fullest(const Scenario&, const TrainingPlan&, std::span<const RankMemory> ranks, Result&);

/// Returns a result with nothing but the memory of the GPUs, its interval, `fits` and `risk`: those of the simulated
/// step, without a simulation. Operations of one stream run one after the other, so their order alone decides the
/// memory. No value: several streams change memory, or other actors than ranks take part, so that times decide.
std::optional<Result> memory_by_programs(const Scenario&, const Plan&);
/// Returns that result, or that of a simulation if times decide the memory. Only the memory counts.
Result memory_of_step(const Scenario&);

}  // namespace trainyard
