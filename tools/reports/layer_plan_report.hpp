#pragma once
#include <string>

#include "scenarios/src/search/layer_plan.hpp"

namespace trainyard {

/// One screen: stages with their layers, devices and splits, and what equally many devices a stage would take.
std::string layer_plan_screen(const LayerPlanAnswer&);

}  // namespace trainyard
