#pragma once
#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {

/// Defines the calls of a center and its replicas: the center sends its parameters and processes the outputs and
/// gradients that it receives. Replicas have no parameters until they receive them. `TrainingValues` must be made for
/// the plan's `step`. The plan must outlive it.
void add_central_values(TrainingValues&, const CentralPlan&);

}  // namespace trainyard
