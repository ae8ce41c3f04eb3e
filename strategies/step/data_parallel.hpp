#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/software/stack.hpp"
#include "models/software/training_memory.hpp"
#include "sim/names.hpp"
#include "strategies/collectives/collective.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

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
  Work accumulation;    ///< of one element: a gradient is added to those of earlier micro-batches; none: the network's
  StaticMemory memory;
  Seconds collective_launch;
  bool bucket_copy = false;   ///< gradients are copied into their bucket, and back
  bool host_buckets = false;  ///< those lie in host memory: what copies is the host, the GPU goes on
  // The Machine's words for what is no kernel:
  std::uint16_t copy_kernel = static_cast<std::uint16_t>(Kernel::elementwise);  ///< copies of buckets
  std::uint16_t overhead_kernel = 0;                                            ///< host work of a step; 0: none
  std::uint16_t wait_kernel = 0;  ///< a full bucket waits for a coordinator's tick; 0: leaves at once

  ReplicaUpdates updates;

  bool values = false;  ///< operations carry calls (see training_calls.hpp)
};

/// A bucket filled from the gradients, or given back to them: each element read and written.
Work bucket_copy_work(const GradientBucket&, const DataParallelPlan&);

/// Groups of the breakdown, in the order in which overlapping time is booked.
struct TrainingGroups {
  GroupId compute, optimizer, framework, all_reduce;
};
TrainingGroups training_groups(Names&, const Collective*);

/// The same as a plan of a mesh. The network must outlive it.
TrainingPlan training_plan(const Network&, const DataParallelPlan&);

/// All steps of one rank. The network, plan and names must outlive the program.
std::unique_ptr<Program> data_parallel_program(int rank, const Network&, const DataParallelPlan&, Names&);

}  // namespace trainyard
