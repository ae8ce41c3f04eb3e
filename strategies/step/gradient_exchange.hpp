#pragma once
#include "strategies/step/bucket_copies.hpp"
#include "strategies/step/compressed_exchange.hpp"
#include "strategies/step/host_offload.hpp"
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// The gradients of one rank: buckets are filled as the backward pass makes gradients, exchanged between replicas, and
/// given back to the optimizer.
class GradientExchange {
 public:
  using ExchangedBucket = BucketCopies::ExchangedBucket;

  GradientExchange(StepContext&, LaneCollectives&, HostOffload&);

  /// Begins a step. `summed`: replicas sum the gradients of this step; otherwise each keeps its own. `set`: the set of
  /// buckets that takes them (see UpdatePolicy::gradient_sets).
  void begin_step(int step, bool summed, int set);
  /// True if buckets leave during the backward pass of this micro-batch. `last_micro_batch`: it is the step's last one.
  bool sends_during_backward(bool last_micro_batch) const;
  /// True if gradients are exchanged after each micro-batch, and added to those of earlier ones.
  bool exchanges_each_micro_batch() const { return step_.plan.zero >= ZeroStage::gradients && !step_.plan.sync_last; }
  /// Exchanges, in their order, the buckets whose last gradient is final after that kernel of the backward pass.
  /// `first`, `last`: the micro-batch is the first or last of the step.
  Ops after_kernel(int layer, int kernel, bool first, bool last);
  /// ZeRO stage 2: takes memory for the whole gradients of the bucket that is being filled.
  Ops open_buckets();
  /// ZeRO stage 3: makes the backward pass of a layer wait until its earlier gradients have left their buffers.
  void wait_for_buffers(int layer);
  /// ZeRO stage 3: reduces and scatters the gradients of a layer after its backward pass (or after the last one alone).
  Ops exchange_layer(int layer, bool first, bool last);
  /// Exchanges the buckets that the backward pass did not.
  Ops exchange_rest();
  /// Exchanges the last gradients, then waits until all gradients of this step are ready for the optimizer, including
  /// those that the ranks of one replica sum.
  Ops finish();
  /// Gives exchanged buckets back to the gradients: decodes them, or copies them out. The next kernel waits.
  Ops give_back(const std::vector<ExchangedBucket>&);
  /// The exchanged buckets, in the order of their exchange.
  const std::vector<ExchangedBucket>& exchanged() const { return exchanged_; }

 private:
  StepContext& step_;
  LaneCollectives& collectives_;
  HostOffload& offload_;
  BucketCopies copies_;
  CompressedExchange compressed_;
  int step_number_ = 0;
  bool summed_ = true;
  std::size_t set_ = 0;
  std::vector<Dep> last_use_;  // indexed by set and bucket: end of the last exchange that used its buffer
  std::size_t next_ = 0;       // the first bucket that is not full yet
  std::size_t opened_ = 0;     // the first bucket without room on the GPU
  std::vector<ExchangedBucket> exchanged_;
  std::vector<Dep> reduced_;  // ends of the previous layer's exchanges

  /// An exchange over the copies of a bucket's states. `start`: the bucket is reduced within its group.
  struct CopiesSum {
    std::size_t bucket, place;
    Dep start;
    bool accumulates;
  };
  std::vector<CopiesSum> unsummed_;  // buckets of the last layer whose copies are summed when the next one ends

  bool exchanges(bool experts) const;
  /// True if the whole gradients of a bucket take memory only from its first gradient to the end of its exchange.
  bool needs_opening(std::size_t bucket) const;
  bool frees_copies() const { return step_.plan.bucket_copy && step_.plan.zero == ZeroStage::gradients; }
  /// Gives copies of buckets back to the gradients, except for the last `left` ones.
  Ops free_copies(std::size_t left);
  Ops exchange(std::size_t bucket, bool accumulate);
  Ops sum_over_copies(CopiesSum);
  /// Sums the copies of the last layer's gradients, with no kernel beside it: their groups have had the time of another
  /// layer to reduce them.
  Ops sum_unsummed();
  /// Gives a bucket whose exchanges end on that stream to the optimizer, or to the host.
  Ops hand_over(std::size_t bucket, bool accumulates, Stream);
  const Op& accumulate(std::size_t bucket, Stream);
};

}  // namespace trainyard
