#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Stages that a plan says one by one, `plan.pipeline.stages: [{layers, tensor, data, linear_split}, ...]`: their layers and
/// ranks, which lie on the cluster the largest stage first, so that those whose sizes divide each other lie across as few
/// nodes as may be. The widest tensor axis is that of `sharding`. Throws UserError with the place; nothing where the plan
/// says no such stages.
void read_stages(PlanChoice&, Fields& plan);
/// What else the plan says of every layer, to each stage; `sharding` is read.
void spread_sharding(PlanChoice&);

/// `linear_split` of a plan or a stage, whose ranks are counted by the key `tensor`.
void read_linear_split(Sharding&, Fields&, const char* tensor);

/// Refuses what is not modelled with such stages: the whole scenario is read but for its network's shares. Splits of an
/// mlp's layers are then of the whole network: before and behind a stage every rank has all.
void check_stages(Scenario&);

}  // namespace trainyard
