#pragma once
#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {

/// What a center and its replicas compute: parameters that the center gave out, outputs and gradients that came to it.
/// Replicas know no parameters but those. The values are of the plan's `step`; the plan must outlive theirs.
void add_central_values(TrainingValues&, const CentralPlan&);

}  // namespace trainyard
