#pragma once
#include <vector>

#include "scenarios/reading/plan_choice.hpp"

namespace trainyard {

/// Which layers each virtual stage has, in the order of the network. Throws UserError for more stages than layers.
std::vector<std::vector<int>> divide_layers(const Network&, const PlanChoice&);

}  // namespace trainyard
