#pragma once
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// Programs, machine and observers put together and run.
Result simulate_here(const Scenario&, const Plan&, const SimulateOptions&);
Result simulate_here(const Scenario&, const SimulateOptions&);
/// The same; a deadlock is told rank by rank, and a prescribed step is not simulated. Failures are another study's (see
/// simulate_training).
Result simulate(const Scenario&, const Plan&, const SimulateOptions& = {});
/// Laid out, then simulated.
Result simulate(const Scenario&, const SimulateOptions& = {});

/// Adds what step and training cost, where the scenario has prices. Throws UserError for electricity that is not known.
void book_money(const Scenario&, Result&);

/// Each resource class `factor` times faster: the scenario with the fields that `faster` names, read, laid out and
/// simulated as `run --set` does it; side by side on the processors there are. Of the options, transport and folding count.
std::vector<WhatIf> what_if(const Scenario&, double factor = 2, const SimulateOptions& = {});

/// By how much a step changes, relatively and at most, where one class of resources is faster by 1e-13: some 1e-13 where
/// the step is well conditioned. Where exchanges wait in line for each other or share links with a beat of their own,
/// rounding decides who comes first, and the step may change by 1e-3. Of the options, transport and folding count.
double rounding_sensitivity(const Scenario&, const SimulateOptions& = {});

}  // namespace trainyard
