#pragma once
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Leaves forward passes alone of a training plan: nothing is kept for a backward pass, no gradients, no update. A step
/// is over when the last micro-batch has passed the last layer.
void make_forward_only(TrainingPlan&);

}  // namespace trainyard
