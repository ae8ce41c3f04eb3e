#pragma once
#include <string>

#include "scenarios/answer/result.hpp"

namespace trainyard {

/// What each stage of a pipeline spends the step on, and its peak memory; where the plan does not fit, the parts of that
/// too. Neighbours that are alike as printed share a row. "" of one stage.
std::string stage_table(const Result&);

}  // namespace trainyard
