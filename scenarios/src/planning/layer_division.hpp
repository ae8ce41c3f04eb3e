#pragma once
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

struct TrainingPlan;

/// Counts the layers that are divided over stages: all but embedding and head, unless these count as layers. Embedding
/// and head come on top of the layers of the first and the last stage.
int layers_to_divide(const Network&, const PlanChoice&);
/// Returns the layers of each virtual stage, in the order of the network: as many as the scenario says; or evenly many
/// of the layers between embedding and head; or balanced, so that the slowest stage is fastest (see `balanced_cut`).
/// The time of a layer is then that of its forward and backward pass and of accumulating its gradients on the slowest
/// GPU of the stage, without exchanges and optimizer. The plan must have its network, schedule and accumulation. Throws
/// UserError for more stages than layers.
std::vector<std::vector<int>> divide_layers(const TrainingPlan&, const Scenario&);
/// Does the same without balancing: as many as the scenario says, or evenly many. It needs no finished plan, because
/// the shards of the network may depend on the division.
std::vector<std::vector<int>> divide_layers(const Network&, const PlanChoice&);

}  // namespace trainyard
