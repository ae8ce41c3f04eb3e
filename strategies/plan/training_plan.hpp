#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/software/training_memory.hpp"
#include "strategies/collectives/collective.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "strategies/plan/gradient_buckets.hpp"
#include "strategies/plan/offload_plan.hpp"
#include "strategies/plan/step_options.hpp"

namespace trainyard {

/// What ranks exchange with each other, each on a stream (or pair of streams) of its own.
enum class Lane : std::uint8_t {
  gradients,         ///< over the replicas, or those that share out among themselves
  parameters,        ///< gathered from these
  copies,            ///< of hybrid sharding: ranks with the same share
  expert_gradients,  ///< the same three for routed experts
  expert_parameters,
  expert_copies,
  tensor,
  context,
  expert,
  expert_tensor,  ///< those that split an expert, where they are not the tensor axis'
  tied,           ///< the ranks that hold a tied weight: of the first and the last stage
  maxima,         ///< of tensors in fp8: ranks that scale them alike
};
constexpr int kLanes = 12;

/// Which ranks agree on the maxima of tensors in fp8 after a pass through a model chunk.
enum class AgreeOnMaxima : std::uint8_t { nobody, tensor_ranks, ranks_of_stage };
const char* name_of(Lane);

/// A group of ranks on one lane.
struct LaneGroup {
  std::vector<int> members;
  CollectiveSettings settings;
};
/// All groups of a lane, and which of them a rank is in. Empty where groups would have one member.
struct LaneGroups {
  std::vector<LaneGroup> groups;
  std::vector<int> of_rank;
  std::vector<int> index_of_rank;  ///< in its group
  std::vector<int> kinds;          ///< of groups: those of one kind take the same time for their collectives
  std::array<const Collective*, kOperations> algorithm{};
  bool alike = true;  ///< groups of one size, and with as many ranks a node
  bool used() const { return !groups.empty(); }
  const LaneGroup& of(int rank) const { return groups[of_rank[rank]]; }
};

/// Ranks of one pipeline stage have this in common.
struct StagePlan {
  std::vector<std::vector<int>> chunks;  ///< of each model chunk, the layers' numbers in the network
  /// Of parameters and gradients, in the order in which the backward pass makes gradients final. A bucket has tensors of
  /// routed experts only, or none; at ZeRO stage 3 those of one layer only.
  std::vector<GradientBucket> buckets;
  std::vector<PipelineTask> tasks;
  Work optimizer;
  StaticMemory memory;
  StaticMemory host_memory;  ///< offload: what a rank holds in its host's memory
  Bytes host_activations;    ///< the same, the most of activations at a time
  Bytes drive;               ///< offload: on the drives of its node
};

class Compressor;
class UpdatePolicy;

/// Where ranks get their samples from, where that is simulated.
struct InputFeed {
  std::vector<std::int32_t> loader_of_rank;  ///< the actor, −1: this rank needs none; empty: samples are just there
  int ahead = 0;                             ///< batches on the GPU besides the one in use
  bool asks = false;                         ///< each batch is asked for when it is due
  Bytes held;                                ///< of a batch on the GPU
  bool used() const { return !loader_of_rank.empty(); }
};

/// What is laid out: the training steps of all ranks of a mesh, of which a single device and plain data parallelism are
/// those of one stage. Made whole by `make_lanes`.
struct TrainingPlan : StepOptions {
  std::shared_ptr<const Network> network;  ///< one rank's share of every layer, of one micro-batch
  int steps = 1;
  int micro_batches = 1;  ///< a step and rank
  PipelineShape pipeline;
  const PipelineSchedule* schedule = nullptr;  ///< null: one stage, one chunk
  std::vector<StagePlan> stages;               ///< by pipeline coordinate
  OffloadPlan offload;
  /// First and last layer share a weight that lies on two stages: their gradients are summed.
  bool tied = false;

  Bytes gradient_element, parameter_element;  ///< on the wire
  Work accumulation;                          ///< of one element: a gradient is added to those of earlier micro-batches
  std::uint16_t micro_batch_kernel = 0;       ///< before the first stage's forward and the last one's backward; 0: none
  std::uint16_t kernel_after_message = 0;     ///< before a pass that a message came in for; 0: none
  AgreeOnMaxima agree_on_maxima = AgreeOnMaxima::nobody;
  Seconds collective_launch;
  bool bucket_copy = false;   ///< gradients are copied into their bucket, and back
  bool host_buckets = false;  ///< those lie in host memory: what copies is the host, the GPU goes on
  // The Machine's words for what is no kernel:
  std::uint16_t copy_kernel = static_cast<std::uint16_t>(Kernel::elementwise);  ///< copies of buckets
  std::uint16_t overhead_kernel = 0;                                            ///< host work of a step; 0: none
  std::uint16_t wait_kernel = 0;  ///< a full bucket waits for a coordinator's tick; 0: leaves at once
  std::uint16_t first_fused = 0;  ///< the Machine's number of the first run of kernels that is priced as one; 0: none

  bool nameless = false;  ///< nobody looks at the names of operations: layers that are alike share theirs

  /// Of fused ones: passes through a model chunk may be one operation, since no two ranks that are simulated meet in them.
  bool series = false;

  bool fuses_kernels = false;                   ///< kernels in a row may be one operation where nobody looks at each
  std::shared_ptr<const UpdatePolicy> updates;  ///< null: gradients are all-reduced in every step
  std::shared_ptr<const Compressor>
      compression;     ///< of the gradients that replicas sum; null: they are exchanged whole
  int first_step = 0;  ///< of the training: the number of the first step that is laid out (a warm-up may be over)
  bool through_center = false;  ///< replicas exchange nothing with each other: a center has the parameters
  InputFeed input;
  bool marks_steps = false;  ///< the end of each step is an operation of its own (see TrainingWords::step_over)

  bool values = false;  ///< operations carry calls (see training_calls.hpp)
  /// With `values`: those of another, small network. Of passes the last layer's forward pass alone is told, and all else
  /// goes on as without values.
  bool rides = false;
  bool values_by_layer() const { return values && !rides; }
  std::array<LaneGroups, kLanes> lanes;

  const LaneGroups& lane(Lane l) const { return lanes[static_cast<std::size_t>(l)]; }
  LaneGroups& lane(Lane l) { return lanes[static_cast<std::size_t>(l)]; }
  int ranks() const { return mesh.ranks(); }
  const StagePlan& stage_of(int rank) const { return stages[mesh.of(rank).pipeline]; }
  int virtual_stages() const { return pipeline.stages * pipeline.chunks; }
  bool coordinated() const {
    return lane(Lane::gradients).used() && (wait_kernel != 0 || (bucket_copy && host_buckets));
  }
};

/// Ranks over which the tensors of buckets are shared out, or where ZeRO is off summed: `rank` among them, in their
/// order.
std::vector<int> zero_group(const TrainingPlan&, int rank, bool experts);

/// What a stage of ZeRO shares out over so many replicas.
ZeroShares zero_shares(ZeroStage, double replicas);

/// Fills `stages`, whose number is the mesh's: layers of each virtual stage, tasks, and buckets, of which those with a
/// tied weight wait for the other stage's gradient. The network, pipeline, schedule, `zero`, `tied` and
/// `gradient_element` must be there.
void divide(TrainingPlan&, const std::vector<std::vector<int>>& layers_of_virtual_stages, const BucketChoice&);

/// A plan of replicas that each hold the whole network: one stage with all layers, `micro_batches` a step and rank,
/// gradients in fp32, no memory, no buckets, no lanes.
TrainingPlan replica_plan(std::shared_ptr<const Network>, int ranks, int micro_batches = 1);

/// Groups of every lane that the mesh has use for, their nodes told by `node_of_rank`; `settings` are theirs but for that
/// (and the library's ways, where they are modelled). `algorithms`: by operation; null: not used. `ranks`: those whose groups
/// are made; empty: all. Throws UserError at `where` for an algorithm that cannot do one of the groups.
struct LaneChoice {
  CollectiveSettings settings;
  std::array<const Collective*, kOperations> algorithms{};
  std::shared_ptr<const CollectiveModel> dispatcher;  ///< in place of the settings' model on the expert lane; null: not

  const Collective*& operator[](Operation o) { return algorithms[static_cast<std::size_t>(o)]; }
};
void make_lanes(TrainingPlan&, const std::vector<int>& node_of_rank, const LaneChoice& gradients,
                const LaneChoice& others, const Place& where, std::vector<int> ranks = {});

}  // namespace trainyard
