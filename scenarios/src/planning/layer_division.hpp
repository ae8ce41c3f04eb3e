#pragma once
#include <cstdint>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/software/stack.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Returns the time of the forward and backward pass of one micro-batch through a layer, on an otherwise idle GPU of
/// this node, without exchanges.
Seconds layer_time(const Layer&, const NodeType&, const SoftwareStack&);

/// Returns the time in which a host that runs ahead launches the kernels of these passes; 0 for other hosts and with
/// CUDA graphs. A stage whose kernels are shorter takes this time.
Seconds launch_time(const Layer&, const NodeType&, const SoftwareStack&);

/// Returns the time to add a layer's gradients of one micro-batch to those of earlier ones. `element_work`: work of one
/// element.
Seconds accumulation_time(const Layer&, const Work& element_work, const NodeType&, const SoftwareStack&);

/// Divides layers, in their order, into parts of at least one layer, and returns the number of layers of each part.
///
/// `times[part][layer]` (ps, 0 or more) is the time of a layer in a part; `stage_of[part]` is the pipeline stage that
/// executes that part. Dynamic programming finds the cuts whose slowest part is fastest, and of these one whose fastest
/// part is slowest. If stages have several parts, single layers then move over a boundary as long as that makes the
/// slowest stage (the sum of its parts) faster: a good cut, not always the best. Needs at least as many layers as
/// parts.
std::vector<int> balanced_cut(const std::vector<std::vector<std::int64_t>>& times, const std::vector<int>& stage_of);

struct StageFigures;
struct TrainingPlan;

/// Counts the layers that are divided over stages: all but embedding and head, unless these count as layers. Embedding
/// and head come on top of the layers of the first and the last stage.
int layers_to_divide(const Network&, const PlanChoice&);
/// Returns the layers of each virtual stage, in the order of the network: as many as the scenario says; or evenly many
/// of the layers between embedding and head; or balanced, so that the slowest stage is fastest (see `balanced_cut`).
/// The time of a layer is then that of its forward and backward pass, with the exchanges between the ranks of a stage by
/// the library's model, and of accumulating its gradients on the slowest GPU of the stage, without optimizer. The plan
/// must have its network, schedule and accumulation. Throws UserError for more stages than layers.
std::vector<std::vector<int>> divide_layers(const TrainingPlan&, const Scenario&);
/// Does the same without balancing: as many as the scenario says, or evenly many. It needs no finished plan, because
/// the shards of the network may depend on the division.
std::vector<std::vector<int>> divide_layers(const Network&, const PlanChoice&);

/// Returns the figures of a mean stage for a schedule that is solved: its kernels on the cluster's nodes, and the part
/// that weights' gradients need of its activations. Exchanges and messages are left out.
StageFigures mean_stage(const Scenario&, const Network&);

}  // namespace trainyard
