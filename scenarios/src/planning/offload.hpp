#pragma once
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

struct HeldElements;
struct StagePlan;
struct TrainingPlan;

/// Makes the plan of the scenario's offload: bytes per element by its optimizer and precision. `training` must have its
/// network and sizes of elements. Throws UserError for gradients that are sums over tensor ranks.
OffloadPlan offload_plan(const Scenario&, const TrainingPlan& training);

/// Returns the elements that stay on the GPU of a rank that would hold `held` without offload.
HeldElements held_on_gpu(const TrainingPlan&, const HeldElements& held);

/// Adds the memory of a rank of the stage in host memory and on drives. `shares`: elements of each bucket that the rank
/// updates.
void hold_on_host(const TrainingPlan&, StagePlan&, const HeldElements& held, const std::vector<double>& shares);

/// Returns the layers whose activations lie in host memory. `stages`: layers of each virtual stage. Throws UserError
/// for more blocks than a stage has.
ActivationOffload activation_offload(const Scenario&, const Network&, const std::vector<std::vector<int>>& stages);

/// Sets the peak of the activations that a rank of the stage holds in host memory, by the order of its tasks.
void hold_activations_on_host(const TrainingPlan&, StagePlan&);

/// Adds the paths of every rank between its GPU, the CPU socket next to it and all drives of its node. Throws UserError
/// at `where` if a GPU has no CPU, or a path is missing.
void attach_host_ways(OffloadPlan&, int ranks, const ClusterMachine&, const Place& where);

}  // namespace trainyard
