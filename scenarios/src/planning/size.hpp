#pragma once

#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

struct Plan;
struct Scenario;
struct TrainingPlan;

/// Sets the number of simulated steps of a plan that is otherwise complete: `training.steps` (which the scenario may
/// state), `warm_steps` and `search`. Throws UserError for a number that is not a whole number of periods.
void choose_steps(Plan&, const Scenario&);

/// Returns the period of the steps: that of the mechanism, and of stragglers if the run can afford it.
int period_of_steps(const Scenario&, const TrainingPlan&);

/// Returns the number of steps until all buffers are full and fast workers are as far ahead as they may be. A plan may
/// have fewer warm-up steps, because of their cost.
double steps_to_steady_state(const Scenario&, const TrainingPlan&);

/// Returns the plan with exactly the steps that a run of it has averaged, so that a changed plan is compared on the
/// same steps.
Plan on_steps(Plan, int warm_steps, int steps);

struct TrainingPlan;

/// Estimates the operations of one step.
StepOperations operations_of_step(const Scenario&, const TrainingPlan&);
/// Estimates the operations of all steps of a plan. `fused`: with consecutive kernels as one operation, if the plan
/// allows it.
double estimated_operations(const Plan&, bool fused = false);

/// Returns the most steps that the clock can resolve, by an upper bound for the time of each.
double most_clock_steps(const Scenario&, const TrainingPlan&);

/// Throws UserError at the place of the cluster if a step is too long for the clock (months). Reading and showing a
/// scenario has no such limit.
void require_simulable(const Scenario&, const Plan&);
/// Most operations that are simulated: the critical path keeps about 90 bytes of each, 9 GB.
constexpr double kMostOperations = 100e6;
/// Throws UserError if there are too many operations for the memory. `part`: share of the ranks that are simulated;
/// `why_unfolded`: why ranks are not folded; empty: they are.
void require_size(const Scenario&, const Plan&, double part, const std::string& why_unfolded);
/// Throws UserError for ranks of more equivalence classes than can be simulated. `why`: the number of classes, and the
/// differences between them.
[[noreturn]] void refuse_classes(const Scenario&, const Plan&, const std::string& why);

}  // namespace trainyard
