#pragma once
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Reduces a training plan to forward passes: nothing is kept for a backward pass, and there are no gradients and no
/// update. A step ends when the last micro-batch has passed the last layer.
void make_forward_only(TrainingPlan&);

}  // namespace trainyard
