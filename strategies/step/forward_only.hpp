#pragma once
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Leaves passes alone of a training plan: no gradients are summed, nothing is updated.
void leave_out_updates(TrainingPlan&);

/// Leaves forward passes alone: nothing is kept for a backward pass, either. A step is over when the last micro-batch has
/// passed the last layer.
void make_forward_only(TrainingPlan&);

}  // namespace trainyard
