#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "models/networks/layers/fusions.hpp"
#include "models/reading/catalog.hpp"
#include "models/software/nccl_version.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A software stack: what the framework adds to the arithmetic. One YAML file in models/catalog/stacks.
struct SoftwareStack : Fusions {
  std::string name;
  std::string description;
  bool nccl = true;         ///< collectives are NCCL's; false: one ring, message by message, as MPI or Gloo do it
  NcclChoice nccl_choice;   ///< which NCCL that is
  Seconds kernel_dispatch;  ///< the host needs this long to issue one kernel: no kernel stream runs faster
  /// The process that launches a rank's kernels.
  struct Host {
    /// It launches kernels before the GPU comes to them; false: each kernel takes `kernel_dispatch` at least.
    bool runs_ahead = false;
    Seconds micro_batch;              ///< its own work where a micro-batch's forward or backward pass begins
    bool waits_for_messages = false;  ///< it launches a stage's pass once the message from the other stage is there
    bool cuda_graphs = false;         ///< kernels between two exchanges are launched together
    bool launch_blocking = false;     ///< it waits for each kernel's end before the next (CUDA_LAUNCH_BLOCKING=1)
  } host;
  Seconds collective_launch;  ///< from the gradient being ready to the collective's first message
  Seconds network_step;       ///< software's part of the latency of one message between nodes (proxy, work requests)
  /// A coordinator wakes once in this time and starts what has become ready since; 0: collectives start at once. Steps
  /// and ticks are out of phase by chance, so a bucket waits half a cycle: the mean.
  Seconds cycle_time;
  Seconds step_overhead;      ///< host work of a step that hides behind nothing (loader, zero_grad, logging)
  bool whole_tensors = true;  ///< gradient buckets hold whole tensors and close once over their size (PyTorch DDP)
  Bytes first_bucket;         ///< default of the plan
  Bytes bucket;               ///< default of the plan; of a rule, the least that it gives
  /// The default grows with the replicas that sum gradients, so that a ring's messages stay large (Megatron-Core); null:
  /// it is `bucket`.
  struct BucketRule {
    double elements = 0;            ///< that a bucket has at least
    double elements_a_replica = 0;  ///< it has so many times the replicas where that is more
    bool operator==(const BucketRule&) const = default;
  };
  std::optional<BucketRule> bucket_rule;
  bool overlap = true;               ///< buckets leave while the backward pass goes on
  bool gradient_bucket_copy = true;  ///< buckets are buffers of their own beside the gradients
  int bucket_buffers = 0;            ///< so many of them are there at one time; 0: all
  bool host_buckets = false;         ///< those lie in host memory, and the CPU copies
  Bytes workspace;                   ///< libraries' workspaces and context on each device
  /// Defaults of a plan's parallelism.
  struct Parallel {
    int zero_stage = 0;
    bool sequence = false;        ///< sequence parallelism wherever there is tensor parallelism
    bool overlap_tensor = false;  ///< exchanges of gradients by the input go on beside those of weights
    /// `Sharding::user_buffers` wherever there is sequence parallelism; 0: exchanges and products are apart.
    double user_buffers = 0;
    double user_buffers_fp8 = 0;     ///< the same where products are in fp8, which are half as long
    bool overlap_parameters = true;  ///< ZeRO 1 and 2: gathered while the next forward pass goes on
    bool overlap_pipeline = true;    ///< no stage waits for its messages to be sent
    bool scatter_gather = false;     ///< between stages each tensor rank sends a part of what all of them have
  } parallel;
  Bytes head_workspace;    ///< besides, where the last layer is, or experts are
  Bytes expert_workspace;  ///< besides, where experts are
  /// Of the gradients that are summed over micro-batches and replicas; none: that of the network.
  std::optional<Precision> gradient_precision;
  /// Those of a micro-batch are copied to that precision by a kernel of their own before they are added (DeepSpeed's
  /// BF16_Optimizer).
  bool cast_accumulation = false;
  /// The only parameters are fp32 ones, cast where they are used (FSDP's mixed precision): no copy in the network's
  /// precision beside master weights.
  bool master_parameters = false;
  /// Read and written a parameter by an update; 0: what the optimizer needs (see training_memory).
  Bytes optimizer_traffic;
  /// Gradients of weights that are added in fp32 leave one tensor in the network's precision for each shape of a weight,
  /// which autograd is given instead (TransformerEngine's get_dummy_wgrad).
  bool dummy_weight_gradients = false;
  /// Times in training over those of single kernels and collectives in tests of their own.
  struct Slowdowns {
    double elementwise = 1;  ///< kernels bound by memory: those of the framework over plain streaming
    double optimizer = 1;    ///< the update, over plain streaming
    double products = 1;     ///< matrix products
    double exchanges = 1;    ///< NCCL's within a layer: ranks come at different times, kernels run beside
    double rowwise_fp8 = 1;  ///< products in fp8 with a scale a row, over those with one a tensor
    double overlapped = 0;   ///< kernels beside communication; 0: as the GPU says
  } slowdowns;
  /// Who agrees on the maxima of tensors in fp8 after each pass, where their scales are delayed: all ranks of a pipeline
  /// stage, or those that split a layer (Megatron-Core's tp_only_amax_red).
  bool fp8_maxima_of_stage = true;
  /// What the framework's allocator takes from the GPU, over the most that is allocated from it.
  double reserved_memory = 1;
  bool keeps_stage_gradient = false;  ///< the pipeline's schedule holds the last gradient that it sent back
  /// Runs are long enough for a chip to get hot: matrix products run at `Gpu::sustained_clock`.
  bool long_runs = false;
  /// The flash attention that it calls, an entry of the catalog (`attention`); empty: that of the GPU's measurements.
  std::string attention_kernel;
  Place attention_kernel_place;
  /// Shares of a chip's peak that its convolutions sustain, by architecture; where none is given, the chip's own. Those
  /// bound by memory stream as elementwise kernels do.
  std::map<std::string, double> convolutions;
  Sources sources;

  Bytes default_bucket(double replicas) const;  ///< where gradients are summed over so many
};

SoftwareStack read_stack(const Node& entry);

}  // namespace trainyard
