#pragma once
#include <string>

#include "models/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A software stack: what the framework adds to the arithmetic. One YAML file in models/catalog/stacks.
struct SoftwareStack {
  std::string name;
  std::string description;
  Seconds kernel_dispatch;    ///< the host needs this long to issue one kernel: no kernel stream runs faster
  Seconds collective_launch;  ///< from the gradient being ready to the collective's first message
  Seconds network_step;       ///< software's part of the latency of one message between nodes (proxy, work requests)
  /// A coordinator wakes once in this time and starts what has become ready since; 0: collectives start at once. Steps
  /// and ticks are out of phase by chance, so a bucket waits half a cycle: the mean.
  Seconds cycle_time;
  Seconds step_overhead;      ///< host work of a step that hides behind nothing (loader, zero_grad, logging)
  bool whole_tensors = true;  ///< gradient buckets hold whole tensors and close once over their size (PyTorch DDP)
  Bytes first_bucket;         ///< default of the plan
  Bytes bucket;               ///< default of the plan
  bool overlap = true;        ///< buckets leave while the backward pass goes on
  bool gradient_bucket_copy = true;  ///< buckets are buffers of their own beside the gradients
  bool host_buckets = false;         ///< those lie in host memory, and the CPU copies
  bool fused_loss = false;           ///< false: logits are copied to fp32 for the loss
  Bytes workspace;                   ///< libraries' workspaces and context on each device
  /// Defaults of a plan's parallelism.
  struct Parallel {
    int zero_stage = 0;
    bool sequence = false;            ///< sequence parallelism wherever there is tensor parallelism
    bool overlap_tensor = false;      ///< exchanges of gradients by the input go on beside those of weights
    bool overlap_parameters = true;   ///< ZeRO 1 and 2: gathered while the next forward pass goes on
    bool overlap_pipeline = true;     ///< no stage waits for its messages to be sent
    bool scatter_gather = false;      ///< between stages each tensor rank sends a part of what all of them have
    bool fused_accumulation = false;  ///< gradients are added up by the kernels that make them
  } parallel;
  Sources sources;
};

SoftwareStack read_stack(const Node& entry);

}  // namespace trainyard
