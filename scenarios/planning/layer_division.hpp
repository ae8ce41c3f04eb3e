#pragma once
#include <vector>

#include "scenarios/reading/plan_choice.hpp"

namespace trainyard {

/// Layers that stages share out: all but the embedding and the head, where these come on top of what the first and the
/// last stage have.
int layers_to_divide(const Network&, const PlanChoice&);
/// Which layers each virtual stage has, in the order of the network. Throws UserError for more stages than layers.
std::vector<std::vector<int>> divide_layers(const Network&, const PlanChoice&);

}  // namespace trainyard
