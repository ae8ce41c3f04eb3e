#pragma once
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

struct HeldElements;
struct StagePlan;
struct TrainingPlan;

/// What the scenario's optimizer and precision make of its offload: bytes of one element. The plan's network and elements
/// are there. Throws UserError for gradients
/// that it cannot have summed.
OffloadPlan offload_plan(const Scenario&, const TrainingPlan& of);

/// What stays on a GPU of a rank that would hold `held` without offload.
HeldElements held_on_gpu(const TrainingPlan&, const HeldElements& held);

/// What a rank of the stage holds in host memory and on drives. `shares`: elements of each bucket that it answers for.
void hold_on_host(const TrainingPlan&, StagePlan&, const HeldElements& held, const std::vector<double>& shares);

/// Layers of the network whose activations lie in host memory, by the layers of each virtual stage. Throws UserError for
/// more blocks than a stage has.
ActivationOffload activation_offload(const Scenario&, const Network&, const std::vector<std::vector<int>>& stages);

/// The most activations that a rank of the stage holds in host memory at a time, by the order of its tasks.
void hold_activations_on_host(const TrainingPlan&, StagePlan&);

/// The ways of every rank: its GPU, the CPU socket that it hangs at, all drives of its node. Throws UserError at `where`
/// for a node without a CPU or drives.
void attach_host_ways(OffloadPlan&, int ranks, const ClusterMachine&, const Place& where);

}  // namespace trainyard
