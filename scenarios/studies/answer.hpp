#pragma once
#include "scenarios/running/simulate.hpp"

namespace trainyard {

/// The whole answer to a scenario: its step, and where it has failures or checkpoints, what they make of the training.
Result answer(const Scenario&, const Plan&, const SimulateOptions& = {});
Result answer(const Scenario&, const SimulateOptions& = {});

}  // namespace trainyard
