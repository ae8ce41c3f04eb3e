#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "models/sharding.hpp"
#include "models/training_memory.hpp"
#include "strategies/collective.hpp"
#include "strategies/data_parallel.hpp"
#include "strategies/mesh.hpp"
#include "strategies/pipeline_schedule.hpp"

namespace trainyard {

/// What replicas share out among themselves instead of each keeping all (Rajbhandari et al. 2020, ZeRO): nothing; the
/// optimizer's state (stage 1); gradients too (stage 2); parameters too (stage 3, FSDP).
enum class ZeroStage : std::uint8_t { none, optimizer, gradients, parameters };

/// Ranks of one pipeline stage have this in common.
struct StagePlan {
  std::vector<std::vector<int>> chunks;  ///< of each model chunk, the layers' numbers in the network
  /// Of parameters and gradients, in the order in which the backward pass makes gradients final. A bucket has tensors of
  /// routed experts only, or none; at ZeRO stage 3 those of one layer only.
  std::vector<GradientBucket> buckets;
  std::vector<PipelineTask> tasks;
  Work optimizer;
  StaticMemory memory;
};

/// One training step of all ranks of a mesh.
struct TrainingPlan {
  Mesh mesh;
  Sharding sharding;                ///< of every layer, over tensor, context and expert
  const Network* network = nullptr;  ///< one rank's share of every layer, of one micro-batch
  int steps = 1;
  int micro_batches = 1;  ///< a step and rank
  PipelineShape pipeline;
  const PipelineSchedule* schedule = nullptr;  ///< null: one stage, one chunk
  std::vector<StagePlan> stages;               ///< by pipeline coordinate

  ZeroStage zero = ZeroStage::none;
  /// Replicas that share things out among themselves; 0: all. Fewer: each such group has all (hybrid sharding).
  int zero_group = 0;
  int prefetch = 1;         ///< stage 3: layers whose parameters are gathered ahead
  bool reshard = true;      ///< stage 3: parameters are dropped after the forward pass, and gathered again
  bool tied = false;        ///< first and last layer share a weight: its gradients are summed over first and last stage
  bool values = false;      ///< operations carry calls (see training_calls.hpp)
};

/// Ranks over which bucket tensors are shared out (or replicated where ZeRO is off), `rank` among them, in their order.
std::vector<int> zero_group(const TrainingPlan&, int rank, bool experts);

}  // namespace trainyard
