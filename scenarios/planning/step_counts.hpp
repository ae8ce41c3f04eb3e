#pragma once
#include <string>

#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// How many steps are simulated, of a scenario that is read but for that: sets its `warm_steps`, and `plan.steps` where
/// the plan does not say them. `said`: where it does; null: it does not. Throws UserError where what comes in turns would
/// be cut.
void choose_steps(Scenario&, const Place* said);

/// Do stragglers make steps differ from each other?
bool steps_differ(const SlowParts&);

/// "20 looked at, after 51 before"; "" where it is one like all others.
std::string steps_in_words(const Scenario&);

}  // namespace trainyard
