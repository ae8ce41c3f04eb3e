#pragma once

namespace trainyard {

struct Plan;
struct Scenario;
struct TrainingPlan;

/// Sets the number of simulated steps of a plan that is otherwise complete: `training.steps` (which the scenario may
/// state), `warm_steps` and `search`. Throws UserError for a number that is not a whole number of periods.
void choose_steps(Plan&, const Scenario&);

/// Returns the number of steps until all buffers are full and fast workers are as far ahead as they may be. A plan may
/// have fewer warm-up steps, because of their cost.
double steps_to_steady_state(const Scenario&, const TrainingPlan&);

/// Returns the plan with exactly the steps that a run of it has averaged, so that a changed plan is compared on the
/// same steps.
Plan on_steps(Plan, int warm_steps, int steps);

}  // namespace trainyard
