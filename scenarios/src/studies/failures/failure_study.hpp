#pragma once
#include "scenarios/src/running/simulate.hpp"

namespace trainyard {

/// Simulates the checkpoints on the machine. Then simulates the whole training with its failures in a coarse run, whose
/// steps take `step`. Throws UserError with the place.
FailureResult study_failures(const Scenario&, Seconds step);

/// Simulates the failures of a post-training loop. All its nodes stop with a node that trains, and go back to the last
/// checkpoint of the policy. The loss of a node that generates loses the answers of its engines that have not ended;
/// until they are back, steps take the time of a loop with fewer engines. Throws UserError with the place.
FailureResult study_loop_failures(const Scenario&, const PostTrainingResult&);

/// Simulates one step, and if the scenario has failures or checkpoints, the training with them.
Result simulate_training(const Scenario&, const Plan&, const SimulateOptions& = {});
Result simulate_training(const Scenario&, const SimulateOptions& = {});

}  // namespace trainyard
