#pragma once
#include <array>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

struct ListedLayer;

/// Reads `plan.pipeline.stages: [{layers, tensor, data, linear_split}, ...]`: the layers and ranks of each stage. The
/// ranks lie on the cluster with the largest stage first, so that stages whose sizes divide each other use as few nodes
/// as possible. `sharding` gets the widest tensor axis. Does nothing if the plan has no such key. Throws UserError with
/// the place.
void read_stages(PlanChoice&, Fields& plan);
/// Copies the rest of `sharding`, which holds for every layer, to each stage.
void spread_sharding(PlanChoice&);

/// Reads `linear_split` of a plan or a stage. `tensor`: name of the key with the number of tensor ranks, for errors.
void read_linear_split(Sharding&, Fields&, const char* tensor);

/// Throws UserError for anything that is not modelled with `plan.pipeline.stages`, or with two copies of the network.
/// Call it when the whole scenario is read, except for the shards of its network. Extends the splits of an mlp's layers
/// to the whole network; outside the stage, layers are replicated.
void check_stages(Scenario&);

/// The parts of blocks that plan.recompute_modules names, as Megatron-Core does, in the order of RecomputedPart.
constexpr std::array<const char*, 6> kRecomputedModules{"layernorm", "moe_act", "mla_up_proj", "moe", "mlp", "mlp_act"};
/// The last layer of a network of operators that is trained although none of its operators computes a loss. Null: there is a
/// loss, or the plan is one of inference.
const ListedLayer* end_without_loss(const Scenario&);
/// Throws UserError if the scenario writes a network without a loss, or if plan.recompute_modules names a part that no
/// block of the network has. The scenario must have its model.
void refuse_missing_parts(const Scenario&);

}  // namespace trainyard
