#pragma once
#include "scenarios/src/running/simulate.hpp"

namespace trainyard {

/// Simulates the checkpoints on the machine. Then simulates the whole training with its failures in a coarse run, whose
/// steps take `step`. Throws UserError with the place.
FailureResult study_failures(const Scenario&, Seconds step);

/// Simulates one step, and if the scenario has failures or checkpoints, the training with them.
Result simulate_training(const Scenario&, const Plan&, const SimulateOptions& = {});
Result simulate_training(const Scenario&, const SimulateOptions& = {});

}  // namespace trainyard
