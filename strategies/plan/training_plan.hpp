#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/software/training_memory.hpp"
#include "strategies/collectives/collective.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "strategies/plan/gradient_buckets.hpp"
#include "strategies/plan/offload_plan.hpp"
#include "strategies/plan/step_options.hpp"

namespace trainyard {

/// Kinds of exchanges between ranks. Each has its own stream (or pair of streams).
enum class Lane : std::uint8_t {
  gradients,         ///< over the replicas, or those that shard states among themselves
  parameters,        ///< gathered from the same ranks
  copies,            ///< hybrid sharding: over ranks with the same share
  expert_gradients,  ///< gradients of routed experts, which have three lanes of their own
  expert_parameters,
  expert_copies,
  tensor,
  context,
  expert,
  expert_tensor,  ///< ranks that split an expert, if they are not those of the tensor axis
  tied,           ///< ranks of the first and the last stage that hold a tied weight
  maxima,         ///< maxima of fp8 tensors, over ranks that scale them alike
  expert_return,  ///< rows come back from unlike experts, on the streams of `expert`; otherwise they do so on `expert`
  ulysses,        ///< context ranks that exchange heads, if only neighbours do; keys and values go round on `context`
};
constexpr int kLanes = 14;

/// The ranks that agree on the maxima of fp8 tensors after a pass through a model chunk.
enum class AmaxReduction : std::uint8_t { nobody, tensor_ranks, ranks_of_stage };
const char* name_of(Lane);
/// Return the lane and the collective of a layer's exchange.
Lane lane_of(Axis);
Operation operation_of(ExchangeKind);

/// A group of ranks on one lane.
struct LaneGroup {
  std::vector<int> members;
  CollectiveSettings settings;
};
/// All groups of a lane, and the group of each rank. Empty if groups would have only one member.
struct LaneGroups {
  std::vector<LaneGroup> groups;
  std::vector<int> of_rank;        ///< index of each rank's group; −1: none
  std::vector<int> index_of_rank;  ///< index of each rank in its group
  std::vector<int> kinds;          ///< kind of each group: collectives of groups of one kind take the same time
  std::array<const Collective*, kOperations> algorithm{};
  bool has_one_kind = true;  ///< true if all groups have one kind
  bool is_used() const { return !groups.empty(); }
  const LaneGroup& group(int rank) const { return groups[of_rank[rank]]; }
};

/// The part of the plan that all ranks of one pipeline stage share.
struct StagePlan {
  std::vector<std::vector<int>> chunks;  ///< for each model chunk: its layers' numbers in the network
  /// Buckets of parameters and gradients, in the order in which the backward pass finishes gradients. A bucket has
  /// only tensors of routed experts, or none of them; at ZeRO stage 3 only tensors of one layer.
  std::vector<GradientBucket> buckets;
  std::vector<PipelineTask> tasks;
  Work optimizer;
  UpdateExchanges update_exchanges;  ///< collectives of tensor ranks before the optimizer's work
  StaticMemory memory;
  /// Indexed by layer of the network: gradients that take memory from the layer's first backward pass of a step to its
  /// end. `memory` counts them too. Empty: all gradients have memory throughout.
  std::vector<Bytes> freed_gradients;
  StaticMemory host_memory;  ///< offload: memory that a rank holds in its host
  Bytes host_activations;    ///< offload: largest size of activations in host memory at a time
  Bytes drive;               ///< offload: bytes on the drives of its node
};

class Compressor;
class UpdatePolicy;

/// The source of the ranks' samples, if input is simulated.
struct InputFeed {
  /// The loader's actor, −1: the rank needs none; empty: samples are always ready.
  std::vector<std::int32_t> loader_of_rank;
  int ahead = 0;      ///< number of batches on the GPU besides the one in use
  bool asks = false;  ///< true: a rank asks for each batch when it needs it
  Bytes batch_bytes;  ///< bytes of a batch on the GPU
  bool is_used() const { return !loader_of_rank.empty(); }
};

/// A complete plan for the training steps of all ranks of a mesh. A single device, or plain data parallelism, is a
/// mesh of one stage. `make_lanes` completes it.
struct TrainingPlan : StepOptions {
  // Copied and destroyed in many places: compiled once.
  TrainingPlan() = default;
  TrainingPlan(const TrainingPlan&);
  TrainingPlan(TrainingPlan&&) noexcept;
  TrainingPlan& operator=(const TrainingPlan&);
  TrainingPlan& operator=(TrainingPlan&&) noexcept;
  ~TrainingPlan();

  /// One rank's share of every layer, for one micro-batch. If expert ranks have unlike loads, the fullest rank's.
  std::shared_ptr<const Network> network;
  /// Shares of expert ranks with smaller loads, one for each load. Empty: all ranks have equal loads.
  std::vector<std::shared_ptr<const Network>> load_networks;
  /// By index on the expert axis: the rank's load, 0 for the fullest one's, k for that of `load_networks` k − 1.
  std::vector<int> load_numbers;
  int steps = 1;
  int micro_batches = 1;  ///< for each step and rank
  PipelineShape pipeline;
  const PipelineSchedule* schedule = nullptr;  ///< null: there is one stage with one chunk
  std::vector<StagePlan> stages;               ///< indexed by pipeline coordinate
  OffloadPlan offload;
  /// True if first and last layer share a weight and lie on two stages, which sum its gradients.
  bool tied = false;

  Bytes gradient_element, parameter_element;  ///< size of an element on the wire
  /// ZeRO stages 1 and 2: the owners of whole tensors broadcast them, as a model times it. false: ranks gather shares.
  bool broadcasts_parameters = false;
  /// ZeRO stage 1: replicas all-reduce gradients, also those of other ZeRO groups. false: they reduce and scatter them.
  bool all_reduces_gradients = false;
  Work accumulation;  ///< for one element: adds a gradient to that of earlier micro-batches
  /// Runs before the first stage's forward and the last stage's backward pass; 0: none.
  std::uint16_t micro_batch_kernel = 0;
  std::uint16_t kernel_after_routing = 0;  ///< runs after a kernel whose result the host reads; 0: none
  std::uint16_t kernel_after_message = 0;  ///< runs before a pass for which a message arrived; 0: none
  AmaxReduction amax_reduction = AmaxReduction::nobody;
  Seconds collective_launch;
  bool bucket_copy = false;   ///< gradients are copied into their bucket and back
  bool host_buckets = false;  ///< buckets lie in host memory: the host copies while the GPU goes on
  // The Machine's numbers for work that is not a kernel of a layer:
  std::uint16_t copy_kernel = static_cast<std::uint16_t>(Kernel::elementwise);  ///< copies of buckets
  std::uint16_t overhead_kernel = 0;                                            ///< host work of each step; 0: none
  std::uint16_t wait_kernel = 0;  ///< a full bucket waits for a coordinator's tick; 0: it leaves at once
  std::uint16_t first_fused = 0;  ///< number of the first sequence of kernels that the Machine prices as one; 0: none

  /// True if a pass through a model chunk may be one operation, since no two simulated ranks meet in it. Only with fused
  /// kernels.
  bool series = false;

  /// True if consecutive kernels may be one operation, since nothing observes them individually.
  bool fuses_kernels = false;
  std::shared_ptr<const UpdatePolicy> updates;  ///< null: gradients are all-reduced in every step
  /// Compressor of the gradients that replicas sum; null: gradients are exchanged uncompressed.
  std::shared_ptr<const Compressor> compression;
  int first_step = 0;           ///< number, in the training, of the first step of the plan: a warm-up may be over
  bool through_center = false;  ///< replicas exchange nothing with each other: a center has the parameters
  InputFeed input;
  bool marks_steps = false;  ///< the end of each step is an operation of its own (see TrainingNames::step_over)

  bool values = false;  ///< operations carry calls (see training_calls.hpp)
  /// True if the calls compute another, small network. Of the passes, only the forward pass of the last layer then
  /// carries a call.
  bool rides = false;
  bool values_by_layer() const { return values && !rides; }
  std::array<LaneGroups, kLanes> lanes;

  const LaneGroups& lane(Lane l) const { return lanes[static_cast<std::size_t>(l)]; }
  LaneGroups& lane(Lane l) { return lanes[static_cast<std::size_t>(l)]; }
  int ranks() const { return mesh.ranks(); }
  /// Returns how the ranks of the lane of gradients sum them.
  Operation gradient_operation() const {
    return zero == ZeroStage::none || all_reduces_gradients ? Operation::all_reduce : Operation::reduce_scatter;
  }
  /// Returns the number of a rank's load (see `load_numbers`).
  int load_number(int rank) const {
    return load_numbers.empty() ? 0 : load_numbers[lane(Lane::expert).index_of_rank[rank]];
  }
  const Network& network_of_load(int number) const { return number == 0 ? *network : *load_networks[number - 1]; }
  const StagePlan& stage_of(int rank) const { return stages[mesh.coordinates(rank).pipeline]; }
  int virtual_stages() const { return pipeline.stages * pipeline.chunks; }
  /// Returns the stage and the model chunk of a virtual stage.
  PipelinePlace place_of(int virtual_stage) const {
    return schedule ? schedule->place_of(virtual_stage, pipeline) : PipelinePlace{};
  }
  bool begins_network(int virtual_stage) const { return virtual_stage % mesh.parts(pipeline.chunks) == 0; }
  bool ends_network(int virtual_stage) const { return (virtual_stage + 1) % mesh.parts(pipeline.chunks) == 0; }
  /// Returns the number of a step's micro-batches that go through a layer on one rank: each copy of the network takes an
  /// equal share.
  int micro_batches_of_layer() const { return micro_batches / mesh.copies; }
  bool is_coordinated() const {
    return lane(Lane::gradients).is_used() && (wait_kernel != 0 || (bucket_copy && host_buckets));
  }
};

/// Returns the ranks over which tensors of buckets are sharded (without ZeRO: summed), in their order. `rank` is one
/// of them.
std::vector<int> zero_group(const TrainingPlan&, int rank, bool experts);
/// Returns the number of forward passes by which a stage is ahead of its backward passes in a pipeline without a flush.
int passes_ahead(const TrainingPlan&, int stage);
/// Returns the number of versions of its weights that a stage holds: more than one only without a flush, since a
/// backward pass needs those of its forward pass.
int weight_versions(const TrainingPlan&, int stage);

/// Returns the divisors of parameters, gradients and optimizer states at a ZeRO stage.
ZeroShares zero_shares(ZeroStage, double replicas);
/// Returns the ratio of the elements of all tensors, of routed experts or of the others, to those of the fullest owner.
/// The largest tensors are dealt first, each to the rank that has the fewest elements (InternEvo, hybrid_zero_optim.py,
/// _partition_param_list).
double shares_of_owners(const std::vector<const Layer*>&, bool experts, std::size_t ranks);

/// Fills `stages`, one for each pipeline stage of the mesh: layers of each model chunk, tasks and buckets. Buckets
/// with a tied weight wait for the other stage's gradient. The network, mesh, pipeline, schedule, `zero`, `tied` and
/// `gradient_element` must be set. `layers_of_parts`: layers of each part of the network.
void divide(TrainingPlan&, const std::vector<std::vector<int>>& layers_of_parts, const BucketChoice&);

/// Returns a plan of replicas that each hold the whole network: one stage with all layers, `micro_batches` for each
/// step and rank, gradients in fp32, no memory, no buckets, no lanes.
TrainingPlan replica_plan(std::shared_ptr<const Network>, int ranks, int micro_batches = 1);

/// Settings and algorithms of the collectives on some lanes.
struct LaneChoice {
  CollectiveSettings settings;  ///< without the distribution over nodes, which make_lanes sets
  std::array<const Collective*, kOperations> algorithms{};  ///< indexed by operation; null: not used
  /// Replaces the settings' model on the expert lane; null: no replacement.
  std::shared_ptr<const CollectiveModel> dispatcher;

  const Collective*& operator[](Operation o) { return algorithms[static_cast<std::size_t>(o)]; }
};
/// Makes the groups of every lane that the mesh needs. `node_of_rank` gives their distribution over nodes, `gradients`
/// and `others` their settings and algorithms. Throws UserError at `where` if an algorithm cannot serve one of the
/// groups.
void make_lanes(TrainingPlan&, const std::vector<int>& node_of_rank, const LaneChoice& gradients,
                const LaneChoice& others, const Place& where);

}  // namespace trainyard
