#pragma once
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

struct TrainingPlan;

StepOperations operations_of_step(const Scenario&, const TrainingPlan&);
/// In all steps of a plan. fused: where kernels in a row may be one operation, they are.
double estimated_operations(const Plan&, bool fused = false);

/// So many steps at most are so short, by a bound from above for each, that the clock tells their parts apart.
double steps_of_the_clock(const Scenario&, const TrainingPlan&);

/// Throws UserError, at the place of the cluster or plan, where a simulation would never end: a step of months. Reading
/// and showing a scenario has no such limits.
void require_simulable(const Scenario&, const Plan&);
/// The same where it would take all memory: too many operations. `part` of the ranks are simulated; `why_unfolded`: why not
/// fewer.
void require_size(const Scenario&, const Plan&, double part, const std::string& why_unfolded);

}  // namespace trainyard
