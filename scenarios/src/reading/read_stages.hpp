#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

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

}  // namespace trainyard
