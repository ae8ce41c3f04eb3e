#pragma once
#include <string>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// "327.1 ± 2.9 ms (95 %, 180 steps after 12 of warm-up)", or "8 looked at, after 51 before" of steps that are alike; ""
/// where it is one like all others.
std::string steps_in_words(const Scenario&, const Plan&, const Result&);

}  // namespace trainyard
