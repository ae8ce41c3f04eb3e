#pragma once
#include "scenarios/answer/result.hpp"
#include "scenarios/reading/scenario.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// What the scenario's optimizer and precision make of its offload: bytes of one element. Throws UserError for gradients
/// that it cannot have summed.
OffloadPlan offload_plan(const Scenario&);

/// What stays on a GPU of a rank that would hold `held` without offload.
HeldElements held_on_gpu(const TrainingPlan&, const HeldElements& held);

/// What a rank of the stage holds in host memory and on drives. `shares`: elements of each bucket that it answers for.
void hold_on_host(const TrainingPlan&, StagePlan&, const HeldElements& held, const std::vector<double>& shares);

/// The ways of every rank: its GPU, the CPU socket that it hangs at, all drives of its node. Throws UserError at `where`
/// for a node without a CPU or drives.
void attach_host_ways(OffloadPlan&, int ranks, const ClusterMachine&, const Place& where);

/// Host memory and drives of the fullest node.
void book_host_memory(const Scenario&, const TrainingPlan&, Result&);

/// The resource classes of a cluster, and those that offload uses besides.
std::vector<std::string> resource_classes_of(const Scenario&);

}  // namespace trainyard
