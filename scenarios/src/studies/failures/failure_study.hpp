#pragma once
#include "scenarios/src/running/simulate.hpp"

namespace trainyard {

/// The training's length in steps of `step`, on the coarse run. Checkpoints are simulated over the machine first.
/// Throws UserError with the place.
FailureResult study_failures(const Scenario&, Seconds step);

/// One step, and what failures and checkpoints make of the training where the scenario has any.
Result simulate_training(const Scenario&, const Plan&, const SimulateOptions& = {});
Result simulate_training(const Scenario&, const SimulateOptions& = {});

}  // namespace trainyard
