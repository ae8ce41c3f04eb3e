#pragma once
#include <array>
#include <optional>
#include <string>

#include "models/hardware/gpu.hpp"
#include "models/networks/layers/fusions.hpp"
#include "models/reading/catalog.hpp"
#include "models/software/nccl_version.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Parts of a step's critical path whose durations come from models with errors of their own: traffic of GPU memory,
/// exchanges in a node, and exchanges between nodes.
constexpr std::array<const char*, 3> kPathParts{"memory", "node", "network"};
/// Shares of a step, indexed by part. If all durations of a part are longer by a small share, the step is longer by this
/// share times that of the part.
using PartShares = std::array<double, kPathParts.size()>;

/// A software stack: the work and the memory that a framework adds to the arithmetic. One YAML file in
/// models/catalog/stacks.
struct SoftwareStack : Fusions {
  std::string name;
  std::string description;
  bool nccl = true;         ///< true: collectives of NCCL; false: one ring, message by message, as in MPI or Gloo
  NcclChoice nccl_choice;   ///< version and settings of NCCL
  Seconds kernel_dispatch;  ///< time of the host to issue one kernel: no stream of kernels runs faster
  /// The process that launches a rank's kernels.
  struct Host {
    /// The host launches kernels before the GPU reaches them; false: each kernel takes at least `kernel_dispatch`.
    bool runs_ahead = false;
    Seconds micro_batch;  ///< its own work at the beginning of each forward and backward pass of a micro-batch
    bool waits_for_messages = false;  ///< it launches a stage's pass when the message from the other stage has arrived
    /// The host reads the number of rows of each expert before it launches the experts, unless their rows have a limit.
    bool waits_for_routing = false;
    bool cuda_graphs = false;      ///< kernels between two exchanges are launched together
    bool launch_blocking = false;  ///< it waits for each kernel's end before the next (CUDA_LAUNCH_BLOCKING=1)
  } host;
  Seconds collective_launch;  ///< from the gradient being ready to the collective's first message
  Seconds network_step;       ///< latency of software for one message between nodes (proxy, work requests)
  /// Latency of software for one message between slices of chips. No value: `network_step`.
  std::optional<Seconds> slice_step;
  /// Period in which a coordinator starts the collectives that have become ready; 0: they start at once. The phase of
  /// the coordinator is random, so a bucket waits half a period: the mean.
  Seconds cycle_time;
  Seconds step_overhead;  ///< host work of a step that overlaps with nothing (loader, zero_grad, logging)
  /// Gradient buckets hold whole tensors and close when they exceed their size (PyTorch DDP).
  bool whole_tensors = true;
  Bytes first_bucket;  ///< default of the plan's first bucket
  Bytes bucket;        ///< default of the plan's buckets; with a rule, the smallest size
  /// Rule for a default bucket that grows with the replicas that sum gradients (Megatron-Core). The messages of a ring
  /// then stay large. No value: the default is `bucket`.
  struct BucketRule {
    double elements = 0;            ///< least number of elements of a bucket
    double elements_a_replica = 0;  ///< a bucket has this many elements for each replica if that is more
    bool operator==(const BucketRule&) const = default;
  };
  std::optional<BucketRule> bucket_rule;
  bool overlap = true;               ///< buckets are sent while the backward pass goes on
  bool gradient_bucket_copy = true;  ///< buckets are separate buffers, to which gradients are copied
  int bucket_buffers = 0;            ///< number of bucket buffers that exist at the same time; 0: all
  bool host_buckets = false;         ///< the buffers are in host memory, and the CPU copies
  Bytes workspace;                   ///< libraries' workspaces and context on each device
  /// Defaults of a plan's parallelism.
  struct Parallel {
    int zero_stage = 0;
    bool sequence = false;        ///< sequence parallelism wherever there is tensor parallelism
    bool overlap_tensor = false;  ///< exchanges of input gradients overlap with the kernels of weight gradients
    /// `Sharding::user_buffers` with sequence parallelism; 0: exchanges do not overlap with products.
    double user_buffers = 0;
    double user_buffers_fp8 = 0;     ///< `user_buffers` for products in fp8, which take half the time
    bool overlap_parameters = true;  ///< ZeRO 1 and 2: parameters are gathered while the next forward pass goes on
    /// ZeRO 1 and 2: ranks own whole tensors and broadcast them after their update. false: all gather equal shares.
    bool broadcast_parameters = false;
    /// ZeRO 1: all replicas all-reduce gradients. false: each rank gets the sums of its share alone.
    bool all_reduce_gradients = false;
    bool overlap_copies = true;    ///< groups of ZeRO with a copy each sum their gradients during the backward pass
    bool overlap_experts = false;  ///< a forward and a backward pass alternate, so that exchanges of experts are hidden
    bool overlap_pipeline = true;  ///< no stage waits for its messages to be sent
    bool scatter_gather = false;   ///< each tensor rank sends a part of the tensor that all have to the next stage
  } parallel;
  Bytes head_workspace;    ///< additional workspace on stages with the last layer or with experts
  Bytes expert_workspace;  ///< additional workspace on stages with experts
  /// Precision of the gradients that are summed over micro-batches and replicas. No value: that of the network.
  std::optional<Precision> gradient_precision;
  /// A separate kernel copies the gradients of a micro-batch to that precision before they are added (DeepSpeed's
  /// BF16_Optimizer).
  bool cast_accumulation = false;
  /// All stored parameters are in fp32 and are cast when they are used (FSDP's mixed precision): there are no master
  /// weights besides.
  bool master_parameters = false;
  /// Precision of the states of an optimizer if a plan states none. No value: fp32.
  std::optional<Precision> optimizer_states;
  bool master_weights = true;  ///< `Optimizer::keeps_master` if a plan does not state it
  /// Bytes that an update reads and writes for each parameter; 0: as many as the optimizer needs (see training_memory).
  Bytes optimizer_traffic;
  /// If weight gradients are accumulated by their GEMMs, autograd gets a dummy tensor in the network's precision
  /// instead, one for each shape of a weight (TransformerEngine's get_dummy_wgrad).
  bool dummy_weight_gradients = false;
  /// Ratios of times in training to those of single kernels and collectives in separate tests.
  struct Slowdowns {
    double elementwise = 1;  ///< kernels bound by memory, relative to plain streaming
    double optimizer = 1;    ///< the update, relative to plain streaming
    double products = 1;     ///< matrix products
    double attention = 1;    ///< flash attention and its backward pass
    double exchanges = 1;    ///< NCCL's exchanges in a layer: ranks arrive at different times, other kernels run
    double rowwise_fp8 = 1;  ///< products in fp8 with a scale for each row, relative to one for each tensor
    double overlapped = 0;   ///< kernels during communication; 0: as stated for the GPU

    void slow_down(Gpu&) const;
  } slowdowns;
  /// The measured steps to which `trainyard anchor` fitted the stack, and the doubt that they left.
  struct Anchor {
    double spread = 0;  ///< standard deviation of ln(measured / predicted) on such steps; 0: no steps were measured
    std::string stack;  ///< name of the stack from which the fit started; "": the stack is not anchored
    std::string gpu;    ///< GPU of the measured steps
    std::vector<std::string> networks, precisions;  ///< their kinds of networks and their precisions
    std::vector<std::string> features;              ///< their parts that no shipped measurement has
    double devices = 0;                             ///< most devices of a step
    PartShares path{};                              ///< largest share of a step on its critical path, by part
    double slow_host = 0;                           ///< largest multiple of a step that a slow host would need
    bool wide_tensor = false;                       ///< a tensor group crosses nodes, or its GPUs share no NVSwitch
    bool exists() const { return spread > 0; }
  } anchor;
  /// With delayed scales, ranks agree on the maxima of tensors in fp8 after each pass. true: all ranks of a pipeline
  /// stage; false: only the ranks that split a layer (Megatron-Core's tp_only_amax_red).
  bool fp8_maxima_of_stage = true;
  /// Ratio of the memory that the framework's allocator reserves to the most that is allocated from it.
  double reserved_memory = 1;
  /// Standard deviation of the logarithm of that ratio from step to step, beyond that of Megatron-Core and torchtitan.
  double reserved_memory_spread = 0;
  /// Memory of CUDA's context and libraries on a device. No value: the usual memory less `workspace`, which counts a
  /// part of it.
  std::optional<Bytes> context;
  Bytes communicator{0.6 * 1024 * 1024 * 1024};  ///< NCCL's buffers for each communicator of a rank
  /// The memory of DeepSpeed's pipeline and 16-bit optimizers counts: see `device_memory`.
  bool deepspeed_memory = false;
  /// Size of the gradients inside a block that is recomputed, relative to the activations of that block.
  double recomputed_gradients = 0;
  /// The pipeline's schedule keeps the last gradient that it sent to the previous stage.
  bool keeps_stage_gradient = false;
  /// Gradients take memory from the backward pass that makes them to the next step, whose first pass finds none
  /// (PyTorch's zero_grad sets them to none). false: they have memory throughout.
  bool frees_gradients = false;
  /// Runs are so long that power limits the clock of chips (see `sustained_gpu`).
  bool long_runs = false;
  /// Catalog entry of the flash attention kernel that it calls; empty: the GPU's own figures hold.
  std::string attention_kernel;
  Place attention_kernel_place;
  /// Share of a chip's peak that convolutions sustain; 0: the chip's own share. Convolutions bound by memory stream like
  /// elementwise kernels.
  double convolutions = 0;
  Sources sources;

  Bytes default_bucket(double replicas) const;  ///< default bucket size if `replicas` replicas sum gradients
};

/// Reads and checks an entry. Throws UserError with the place.
SoftwareStack read_stack(const Node& entry);

}  // namespace trainyard
