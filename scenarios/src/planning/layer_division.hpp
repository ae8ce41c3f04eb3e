#pragma once
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

struct TrainingPlan;

/// Layers that stages share out: all but the embedding and the head, where these come on top of what the first and the
/// last stage have.
int layers_to_divide(const Network&, const PlanChoice&);
/// Which layers each virtual stage has, in the order of the network: as many as the scenario says; evenly many of those
/// between embedding and head; or of all layers so many that the slowest stage takes least (see `balanced_cut`). There a
/// layer counts with its forward and backward pass and the sum of its gradients on the slowest GPU of the stage, not with
/// what ranks exchange or the optimizer. The plan has its network, schedule and accumulation. Throws UserError for more
/// stages than layers.
std::vector<std::vector<int>> divide_layers(const TrainingPlan&, const Scenario&);
/// The same of numbers that the plan says, or evenly many: how the network is shared out may depend on it.
std::vector<std::vector<int>> divide_layers(const Network&, const PlanChoice&);

}  // namespace trainyard
