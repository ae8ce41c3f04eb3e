#pragma once
#include <string>

#include "scenarios/src/answer/result.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// What each stage of a pipeline spends the step on, and its peak memory; where the plan does not fit, the parts of that
/// too. Neighbours that are alike as printed share a row. "" of one stage. Layers are counted as the model counts them, with
/// embedding and head beside, where the plan is given; all together else.
std::string stage_table(const Result&, const TrainingPlan* plan = nullptr);

}  // namespace trainyard
