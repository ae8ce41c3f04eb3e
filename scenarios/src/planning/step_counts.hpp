#pragma once

namespace trainyard {

struct Plan;
struct Scenario;
struct TrainingPlan;

/// How a run finds the steps that it looks at, where steps differ from each other (see SteadyState).
struct StepSearch {
  int unit = 1;        ///< what comes in turns does so again after so many steps
  int batch = 1;       ///< steps in one value of which the warm-up is told: multiple of `unit`
  int fewest = 1;      ///< from the first that may be looked at on, before anything is told
  bool given = false;  ///< as many steps as the scenario says; false: until their mean is known well enough
  bool warms = true;   ///< further steps of warm-up are looked for; false: those of Plan::warm_steps are all
};

/// How many steps are simulated, of a plan that is whole but for that: its `training.steps`, which the scenario may say,
/// `warm_steps` and `search`. Throws UserError where what comes in turns would be cut.
void choose_steps(Plan&, const Scenario&);

/// Until all buffers are as full as they stay, and fast workers as far ahead as they may be; a plan may afford fewer.
double steps_to_steady_state(const Scenario&, const TrainingPlan&);

/// The plan with the very steps that a run of it has looked at, as its answer says: what is changed is compared on them.
Plan on_steps(Plan, int warm_steps, int steps);

}  // namespace trainyard
