#pragma once

namespace trainyard {

struct Plan;
struct Scenario;
struct TrainingPlan;

/// How many steps are simulated, of a plan that is whole but for that: its `training.steps`, which the scenario may say,
/// `warm_steps` and `search`. Throws UserError where what comes in turns would be cut.
void choose_steps(Plan&, const Scenario&);

/// Until all buffers are as full as they stay, and fast workers as far ahead as they may be; a plan may afford fewer.
double steps_to_steady_state(const Scenario&, const TrainingPlan&);

/// The plan with the very steps that a run of it has looked at, as its answer says: what is changed is compared on them.
Plan on_steps(Plan, int warm_steps, int steps);

}  // namespace trainyard
