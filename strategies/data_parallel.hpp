#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "models/stack.hpp"
#include "models/training_memory.hpp"
#include "sim/names.hpp"
#include "strategies/collective.hpp"
#include "strategies/training_calls.hpp"

namespace trainyard {

/// Gradients that travel together.
struct GradientBucket {
  struct Part {
    int layer = 0, tensor = 0;
    double elements = 0;  ///< of the tensor in this bucket (all of them, where buckets hold whole tensors)
    double first = 0;     ///< of these elements in the tensor
  };
  double elements = 0;
  std::vector<Part> parts;
  int layer = 0, kernel = 0;  ///< the backward kernel that makes its last gradient final
};

/// Gradients in the order in which the backward pass makes them final, cut into buckets of `first`, then `rest` bytes.
/// Whole tensors: a bucket closes with the tensor that reaches its size (PyTorch DDP, compute_bucket_assignment_by_size);
/// otherwise tensors are split and buckets are of the exact size.
std::vector<GradientBucket> gradient_buckets(const Network&, Bytes element, Bytes first, Bytes rest,
                                             bool whole_tensors);

/// Synchronous data parallelism: every rank computes its micro-batches, the gradients are summed, all ranks update.
struct DataParallelPlan {
  int ranks = 1;
  int steps = 1;
  int micro_batches = 1;  ///< a step and rank; gradients are exchanged with the last one's backward pass
  const Collective* all_reduce = nullptr;  ///< may be null for one rank
  CollectiveSettings collective;
  std::vector<GradientBucket> buckets;
  Bytes gradient_element;
  bool overlap = true;  ///< buckets leave while the backward pass goes on
  Work optimizer;       ///< the update
  StaticMemory memory;
  Seconds collective_launch;
  bool bucket_copy = false;   ///< gradients are copied into their bucket, and back
  bool host_buckets = false;  ///< those lie in host memory: what copies is the host, the GPU goes on
  // The Machine's words for what is no kernel:
  std::uint16_t copy_kernel = static_cast<std::uint16_t>(Kernel::elementwise);  ///< copies of buckets
  std::uint16_t overhead_kernel = 0;                                            ///< host work of a step; 0: none
  std::uint16_t wait_kernel = 0;  ///< a full bucket waits for a coordinator's tick; 0: leaves at once

  bool coordinated() const { return ranks > 1 && (wait_kernel != 0 || (bucket_copy && host_buckets)); }
};

/// A bucket filled from the gradients, or given back to them: each element read and written.
Work bucket_copy_work(const GradientBucket&, const DataParallelPlan&);

/// Streams of a training rank, and their names in traces.
/// The coordinator's, a thread of the host, is used where a stack has one.
constexpr Stream kComputeStream = 0, kSendStream = 1, kRecvStream = 2, kCoordinatorStream = 3, kMoreChannels = 4;
const std::vector<std::string>& training_streams();
std::string training_stream(Stream);  ///< those of further channels too

/// Groups of the breakdown, in the order in which overlapping time is booked.
struct TrainingGroups {
  GroupId compute, optimizer, framework, all_reduce;
};
TrainingGroups training_groups(Names&, const Collective*);

/// All steps of one rank. The network, plan and names must outlive the program.
std::unique_ptr<Program> data_parallel_program(int rank, const Network&, const DataParallelPlan&, Names&);

}  // namespace trainyard
