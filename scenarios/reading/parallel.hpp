#pragma once
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "models/software/stack.hpp"
#include "scenarios/reading/read_servers.hpp"
#include "strategies/mechanisms/central_plan.hpp"
#include "strategies/plan/training_plan.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Where states lie between their uses.
struct OffloadChoice {
  OffloadDevice optimizer = OffloadDevice::none, parameters = OffloadDevice::none;
  Place place;

  bool used() const { return optimizer != OffloadDevice::none; }
  bool drives() const { return optimizer == OffloadDevice::nvme || parameters == OffloadDevice::nvme; }
};

/// What a plan says about how the model is split over ranks.
struct ParallelChoice {
  Mesh mesh;
  Sharding sharding;
  std::string schedule = "1f1b";
  int chunks = 1;                     ///< model chunks a stage
  std::vector<std::int64_t> layers;   ///< of each virtual stage; empty: as even as they go
  bool ends_count_as_layers = false;  ///< embedding and head take the place of a layer each
  bool overlap_pipeline = false;
  bool scatter_gather = false;
  ZeroStage zero = ZeroStage::none;
  int zero_group = 0;
  int prefetch = 1;
  bool reshard = true;
  bool overlap_parameters = true;
  OffloadChoice offload;
  Mechanism mechanism = Mechanism::all_reduce;
  ServerChoice servers;                    ///< of mechanism parameter_server
  bool loss_on_master = true;              ///< of a master
  Fidelity fidelity = Fidelity::messages;  ///< of what is exchanged over other axes than data
  Place place, schedule_place, stages_place, layers_place, zero_place;

  /// Is the model, or what belongs to it, split in any way?
  bool any() const;
  /// Do the first and the last layer lie on different stages?
  bool ends_apart() const;
};

/// Reads of the plan: `tensor_parallel`, `sequence_parallel`, `tensor_parallel_overlap`, `context_parallel` (or `{size, exchange}`),
/// `expert_parallel` (or `{size, imbalance, capacity}`), `pipeline_parallel`, `pipeline: {schedule, chunks, layers,
/// ends_count_as_layers, overlap, scatter_gather}`, `recompute`, `mesh_order`, `collectives`, and of its `data_parallel`
/// map `size`, `zero_stage`, `zero_group`, `prefetch`, `reshard`, `overlap_parameters`, `offload`, `mechanism`, `loss`, and
/// what `read_servers` reads. The mesh has as many data ranks as
/// the cluster has GPUs for, where the plan does not say. Throws UserError with the place and the rule.
ParallelChoice read_parallel(Fields& plan, const Place&, Fields& data_parallel, const ClusterSpec&,
                             const SoftwareStack&);

/// Reads `offload: DEVICE` or `{optimizer: DEVICE, parameters: DEVICE}` of the plan's `data_parallel` map, with devices
/// none, cpu and nvme; DeepSpeed's rules for what goes with which stage
/// (https://www.deepspeed.ai/docs/config-json/, offload_optimizer and offload_param). All else of the choice is read.
void read_offload(ParallelChoice&, Fields& data_parallel, const ClusterSpec&, const SoftwareStack&);

/// Layers that stages share out: all but the embedding and the head, where these come on top of what the first and the
/// last stage have.
int layers_to_divide(const Network&, const ParallelChoice&);
/// Which layers each virtual stage has, in the order of the network. Throws UserError for more stages than layers.
std::vector<std::vector<int>> divide_layers(const Network&, const ParallelChoice&);

}  // namespace trainyard
