#pragma once
#include "strategies/step/bucket_copies.hpp"
#include "strategies/step/compressed_exchange.hpp"
#include "strategies/step/host_offload.hpp"
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// Gradients of one rank: buckets are filled as the backward pass makes them, exchanged between replicas, and given
/// back to the optimizer.
class GradientExchange {
 public:
  using Exchanged = BucketCopies::Exchanged;

  GradientExchange(StepContext&, LaneCollectives&, HostOffload&);

  /// `summed`: replicas sum the gradients of this step; else each keeps its own. `set`: which of the sets of buckets
  /// takes them (see UpdatePolicy::gradient_sets).
  void begin_step(int step, bool summed, int set);
  /// Do buckets leave during this backward pass, the last of the step or not?
  bool leave_during_backward(bool last_micro_batch) const;
  /// Are gradients exchanged after each micro-batch, into what earlier ones have left?
  bool each_micro_batch() const { return step_.plan.zero >= ZeroStage::gradients && !step_.plan.sync_last; }
  /// The backward pass has reached that kernel of that layer: buckets whose last gradient is there leave, in their
  /// order. `first`, `last`: of the micro-batches.
  Ops after_kernel(int layer, int kernel, bool first, bool last);
  /// ZeRO stage 2: room for the whole gradients of the bucket that is being filled.
  Ops open_buckets();
  /// ZeRO stage 3: the backward pass of a layer waits until its earlier gradients have left their buffers, and after it,
  /// or after the last one only, its gradients are reduced and scattered.
  void wait_for_buffers(int layer);
  Ops exchange_layer(int layer, bool first, bool last);
  /// What the backward pass has left to be exchanged.
  Ops exchange_rest();
  /// The same, then all of this step's gradients are ready for the optimizer: those too that ranks of one replica sum.
  Ops finish();
  /// What has been exchanged is given back to the gradients: decoded, copied out of buckets. The next kernel waits.
  Ops give_back(const std::vector<Exchanged>&);
  /// In the order of their exchange.
  const std::vector<Exchanged>& exchanged() const { return exchanged_; }

 private:
  StepContext& step_;
  LaneCollectives& collectives_;
  HostOffload& offload_;
  BucketCopies copies_;
  CompressedExchange compressed_;
  int step_number_ = 0;
  bool summed_ = true;
  std::size_t set_ = 0;
  std::vector<Dep> last_use_;  // by set and bucket: the exchange that was the last to use its buffer
  std::size_t next_ = 0;       // the first bucket that is not full yet
  std::size_t opened_ = 0;     // the first bucket without room on the GPU
  std::vector<Exchanged> exchanged_;
  std::vector<Dep> reduced_;  // ends of the last layer's exchanges

  bool exchanges(bool experts) const;
  /// Is there room for whole gradients of a bucket from its first one to the end of its exchange alone?
  bool opens(std::size_t bucket) const;
  bool frees_copies() const { return step_.plan.bucket_copy && step_.plan.zero == ZeroStage::gradients; }
  /// Copies of buckets are given back to the gradients, but for so many of the last ones.
  Ops free_copies(std::size_t left);
  Ops exchange(std::size_t bucket, bool accumulate);
  const Op& accumulate(std::size_t bucket, Stream);
};

}  // namespace trainyard
