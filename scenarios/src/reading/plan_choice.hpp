#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "models/software/expert_dispatcher.hpp"
#include "models/software/stack.hpp"
#include "scenarios/src/reading/read_collective.hpp"
#include "strategies/plan/gradient_buckets.hpp"
#include "strategies/plan/offload_plan.hpp"
#include "strategies/plan/step_options.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

class Compressor;
class Mechanism;
struct LibraryModel;

/// Where states, and activations, lie between their uses.
struct OffloadChoice {
  OffloadDevice optimizer = OffloadDevice::none, parameters = OffloadDevice::none;
  Place place;
  /// The first blocks of each virtual stage whose activations lie in host memory; 0: none.
  int activation_blocks = 0;
  int activations_ahead = 1;  ///< see ActivationOffload
  Place activations_place;

  static constexpr int kAllBlocks = 1 << 30;
  bool used() const { return optimizer != OffloadDevice::none; }
  bool activations() const { return activation_blocks > 0; }
  bool copies() const { return used() || activations(); }
  bool drives() const { return optimizer == OffloadDevice::nvme || parameters == OffloadDevice::nvme; }
};

/// What a plan says about how training is spread over ranks: the section `plan` without what concerns one device.
struct PlanChoice : StepOptions {
  std::string schedule = "1f1b";
  int chunks = 1;             ///< model chunks a stage
  bool pairs_passes = false;  ///< see PipelineShape
  /// Full recomputation of so many blocks at the beginning of each virtual stage; 0: of all (Megatron-LM's
  /// recompute-method block with recompute-num-layers).
  int recomputed_blocks = 0;
  std::vector<std::int64_t> layers;   ///< of each virtual stage; empty: as even as they go, or balanced
  bool balanced = false;              ///< stages take equally long, as far as whole layers allow
  bool ends_count_as_layers = false;  ///< embedding and head take the place of a layer each
  OffloadChoice offload;
  BucketChoice buckets;
  std::string mechanism_name = kAllReduce;
  std::shared_ptr<const Mechanism> mechanism;      ///< never null in a scenario that was read
  std::shared_ptr<const Compressor> compression;   ///< of gradients; null: they are exchanged whole
  CollectiveChoice all_reduce;                     ///< of gradients
  Fidelity fidelity = Fidelity::messages;          ///< of collectives whose algorithm nobody names
  std::shared_ptr<const CollectiveModel> library;  ///< of the cluster, where it was read; null: not, or it has none
  ExpertDispatcher dispatcher;
  bool inference = false;    ///< forward passes alone
  std::optional<int> steps;  ///< that are looked at, where the plan says it
  Place place, schedule_place, layers_place, zero_place, bucket_place, steps_place, compression_place,
      pairs_place, dispatcher_place, recomputed_place;
  Place stages_place;  ///< of plan.pipeline.stages

  /// Is the model, or what belongs to it, split in any way?
  bool splits_model() const;
  /// Do the first and the last layer lie on different stages?
  bool ends_apart() const;
  int replicas() const { return mesh.widest(Axis::data) * mesh.context; }
};

/// How finely a plan is simulated. Replicas of a whole model are simulated kernel by kernel; a model that is split has too
/// many of them.
struct Detail {
  bool fuses_kernels = false;  ///< kernels in a row may be one operation
  bool books_library_buffers =
      false;  ///< what the libraries that split a model hold besides (see `add_library_buffers`)
};
Detail detail_of(const PlanChoice&);

/// Reads of the plan: `tensor_parallel`, `sequence_parallel`, `tensor_parallel_overlap`, `context_parallel` (or `{size,
/// exchange}`), `expert_parallel` (or `{size, tensor, imbalance, capacity, dispatcher,
/// fp8_dispatch, overlap}`), `pipeline_parallel`, `pipeline: {schedule, chunks,
/// layers, stages, ends_count_as_layers, overlap, scatter_gather}` (layers: even, balanced, or a list), `recompute` (or `{full: N}`), `activation_offload`, `mesh_order`,
/// `collectives`, `steps`, and `data_parallel`: a number of ranks, or a map of `size`, `zero_stage`, `zero_group`,
/// `prefetch`, `reshard`, `gradient_sync` (each or last: after each micro-batch or the last one), `overlap`,
/// `overlap_parameters`, `bucket`, `first_bucket`, `bucket_boundaries`, `offload`, `all_reduce`, `compression`,
/// `mechanism`, and the keys of the mechanism. The mesh has as many data ranks as the cluster has GPUs for,
/// where the plan does not say. Throws UserError with the place and the rule.
/// `library`: of the cluster under the stack (see `library_of`).
PlanChoice read_plan(const Node& section, Fields& plan, const ClusterSpec&, const SoftwareStack&,
                     const LibraryModel* library);

/// The stack's library, where there is a model of it on these chips (else null): collectives are then as it does them by
/// default.
std::shared_ptr<const LibraryModel> library_of(const ClusterSpec&, const SoftwareStack&);

/// Reads `activation_offload: none`, `all` or a number of blocks, or `{blocks, ahead}`.
void read_activation_offload(PlanChoice&, Fields& plan);

/// Reads of it the map `data_parallel`; the axes of the mesh but for data are read.
void read_data_parallel(PlanChoice&, Fields& plan, Fields& data_parallel, const ClusterSpec&, const SoftwareStack&,
                        const LibraryModel* library);

/// Reads `offload: DEVICE` or `{optimizer: DEVICE, parameters: DEVICE}` of the plan's `data_parallel` map, with devices
/// none, cpu and nvme; DeepSpeed's rules for what goes with which stage
/// (https://www.deepspeed.ai/docs/config-json/, offload_optimizer and offload_param). All else of the choice is read.
void read_offload(PlanChoice&, Fields& data_parallel, const ClusterSpec&, const SoftwareStack&);

/// A number of ranks. Throws UserError with the place for what no cluster has.
inline int read_rank_count(Fields& fields, Key key, std::int64_t fallback = 1) {
  return fields.integer_within(key, 1, 1 << 20, fallback);
}

}  // namespace trainyard
