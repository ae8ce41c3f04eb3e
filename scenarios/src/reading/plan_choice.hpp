#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/networks/network_entry.hpp"
#include "models/reading/document.hpp"
#include "models/software/expert_dispatcher.hpp"
#include "models/software/stack.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/expert_loads.hpp"
#include "scenarios/src/reading/read_collective.hpp"
#include "strategies/plan/gradient_buckets.hpp"
#include "strategies/plan/offload_plan.hpp"
#include "strategies/plan/step_options.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

class Compressor;
class Mechanism;
struct LibraryModel;

/// Offload: where optimizer states, parameters and activations lie between their uses.
struct OffloadChoice {
  OffloadDevice optimizer = OffloadDevice::none, parameters = OffloadDevice::none;
  Place place;
  /// Number of first blocks of each virtual stage whose activations lie in host memory; 0: none.
  int activation_blocks = 0;
  int activations_ahead = 1;  ///< see ActivationOffload
  Place activations_place;

  static constexpr int kAllBlocks = 1 << 30;
  bool is_used() const { return optimizer != OffloadDevice::none; }
  bool activations() const { return activation_blocks > 0; }
  bool copies() const { return is_used() || activations(); }
  bool drives() const { return optimizer == OffloadDevice::nvme || parameters == OffloadDevice::nvme; }
};

/// The part of the section `plan` that spreads the training over ranks; keys that concern one device are elsewhere.
struct PlanChoice : StepOptions {
  std::string schedule = "1f1b";
  int chunks = 1;               ///< model chunks of each stage
  double activation_limit = 1;  ///< see StageFigures; of schedules that are solved
  /// Number of blocks at the beginning of each virtual stage with full recomputation; 0: all blocks (Megatron-LM's
  /// recompute-method block with recompute-num-layers).
  int recomputed_blocks = 0;
  std::vector<std::int64_t> layers;   ///< layers of each virtual stage; empty: as even as possible, or balanced
  bool balanced = false;              ///< whether stages take equally long, as far as whole layers allow
  bool ends_count_as_layers = false;  ///< whether embedding and head count as one layer each
  OffloadChoice offload;
  BucketChoice buckets;
  std::string mechanism_name = kAllReduce;
  std::shared_ptr<const Mechanism> mechanism;      ///< never null in a scenario that was read
  std::shared_ptr<const Compressor> compression;   ///< compressor of gradients; null: they are exchanged whole
  CollectiveChoice all_reduce;                     ///< all-reduce of gradients
  Fidelity fidelity = Fidelity::messages;          ///< fidelity of collectives without a key of their own
  std::shared_ptr<const CollectiveModel> library;  ///< library model of the cluster; null: none
  ExpertDispatcher dispatcher;
  ExpertLoads expert_loads;
  bool inference = false;    ///< only forward passes
  std::optional<int> steps;  ///< number of steps to simulate. No value: the plan does not say
  Place place, schedule_place, layers_place, zero_place, bucket_place, steps_place, compression_place, pairs_place,
      dispatcher_place, recomputed_place;
  Place stages_place;  ///< place of plan.pipeline.stages

  /// Returns true if the model is split, or its states or activations are sharded, recomputed or offloaded.
  bool splits_model() const;
  /// Returns true if the first and the last layer lie on different stages.
  bool ends_apart() const;
  /// Number of ranks that sum gradients: all that hold the same parameters.
  int replicas() const { return mesh.widest(Axis::data) * mesh.context * mesh.copies; }
  /// Returns how context ranks exchange keys and values: "ring", "all-to-all" or "ulysses 2".
  std::string context_exchange_in_words() const;
  /// Returns the axes of the mesh with that exchange: "tensor 8 x context 8 (ring) x data 4".
  std::string mesh_in_words() const { return mesh.in_words(context_exchange_in_words()); }
  /// Returns the parts of the network as a product: "4 stages x 2 chunks", or "4 stages in both directions".
  std::string parts_in_words() const;
};

/// Returns the numbers that ranks of the network must divide, for errors.
using FindRanksRoom = std::function<RanksRoom()>;

/// Reads the keys of the plan that spread it over ranks: the axes of the mesh, the pipeline, recomputation, offload,
/// collectives, and `data_parallel` with the keys of its mechanism. If the plan does not say, the mesh has as many data
/// ranks as the cluster has GPUs for. `library`: model of the cluster's library under the stack (see `library_of`), or
/// null. Throws UserError with the place and the rule.
PlanChoice read_plan(const Node& section, Fields& plan, const ClusterSpec&, const SoftwareStack&,
                     const LibraryModel* library, const FindRanksRoom&);

/// Returns a model of the stack's collective library on these chips, or null if there is none. With a model,
/// collectives are by default as the library does them.
std::shared_ptr<const LibraryModel> library_of(const ClusterSpec&, const SoftwareStack&);

/// Reads `optimizer: NAME` or `{name, states, master_weights}`. The stack says what the plan does not.
Optimizer read_optimizer(Fields& plan, const SoftwareStack&);

/// Reads `activation_offload: none`, `all` or a number of blocks, or `{blocks, ahead}`.
void read_activation_offload(PlanChoice&, Fields& plan);

/// Reads the map `data_parallel`, after the other axes of the mesh.
void read_data_parallel(PlanChoice&, Fields& plan, Fields& data_parallel, const ClusterSpec&, const SoftwareStack&,
                        const LibraryModel* library, const FindRanksRoom&);

/// Reads `offload: DEVICE` or `{optimizer: DEVICE, parameters: DEVICE}` of the plan's `data_parallel` map, after the
/// rest of the choice. Devices are none, cpu and nvme. DeepSpeed's rules say what each ZeRO stage can offload
/// (https://www.deepspeed.ai/docs/config-json/, offload_optimizer and offload_param).
void read_offload(PlanChoice&, Fields& data_parallel, const ClusterSpec&, const SoftwareStack&);

/// Reads a number of ranks. Throws UserError with the place for a number that no cluster has.
inline int read_rank_count(Fields& fields, Key key, std::int64_t fallback = 1) {
  return fields.integer_within(key, 1, 1 << 20, fallback);
}

/// Counts the devices of the cluster that have no work. Devices of a node with servers do not count. Idle devices are
/// an error unless the plan has `idle_devices: allowed`.
int idle_devices(const PlanChoice&, const ClusterSpec&);

}  // namespace trainyard
