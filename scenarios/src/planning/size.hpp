#pragma once
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

struct TrainingPlan;

/// Estimates the operations of one step.
StepOperations operations_of_step(const Scenario&, const TrainingPlan&);
/// Estimates the operations of all steps of a plan. `fused`: with consecutive kernels as one operation, if the plan
/// allows it.
double estimated_operations(const Plan&, bool fused = false);

/// Returns the most steps that the clock can resolve, by an upper bound for the time of each.
double steps_of_the_clock(const Scenario&, const TrainingPlan&);

/// Throws UserError at the place of the cluster if a step is too long for the clock (months). Reading and showing a
/// scenario has no such limit.
void require_simulable(const Scenario&, const Plan&);
/// Throws UserError if there are too many operations for the memory. `part`: share of the ranks that are simulated;
/// `why_unfolded`: why not fewer, or empty.
void require_size(const Scenario&, const Plan&, double part, const std::string& why_unfolded);

}  // namespace trainyard
