#pragma once
#include <string>

#include "scenarios/src/search/layer_plan.hpp"

namespace trainyard {

/// The answer on one screen: stages with their layers, devices and splits, compared with plans of equal stages.
std::string layer_plan_screen(const LayerPlanAnswer&);

}  // namespace trainyard
