#pragma once
#include <string>

#include "scenarios/planning/plan.hpp"

namespace trainyard {

/// How many steps are simulated, of a plan that is whole but for that: its `training.steps`, which the scenario may say,
/// and `warm_steps`. Throws UserError where what comes in turns would be cut.
void choose_steps(Plan&, const Scenario&);

/// Do stragglers make steps differ from each other?
bool steps_differ(const SlowParts&);

/// "20 looked at, after 51 before"; "" where it is one like all others.
std::string steps_in_words(const Scenario&, const Plan&);

}  // namespace trainyard
