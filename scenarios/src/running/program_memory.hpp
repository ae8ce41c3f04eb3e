#pragma once
#include <optional>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// Returns a result with nothing but the memory of the GPUs, its interval, `fits` and `risk`: those of the simulated
/// step, without a simulation. Operations of one stream run one after the other, so their order alone decides the
/// memory. No value: several streams change memory, or other actors than ranks take part, so that times decide.
std::optional<Result> memory_by_programs(const Scenario&, const Plan&);
/// Returns that result, or that of a simulation if times decide the memory. Only the memory counts.
Result memory_of_step(const Scenario&);

}  // namespace trainyard
