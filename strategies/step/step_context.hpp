#pragma once
#include "sim/ops.hpp"
#include "strategies/collectives/emitter.hpp"
#include "strategies/plan/training_buffers.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/step/rank_peers.hpp"
#include "strategies/step/training_streams.hpp"

namespace trainyard {

/// What the next operation of the compute stream waits for besides the one before it. An operation holds two
/// dependencies: where there are more, marks before it take the others.
class PendingWaits {
 public:
  void add(Dep dep) { deps_.at(static_cast<std::size_t>(count_++)) = dep; }
  void add(const PendingWaits& others) {
    for (int i = 0; i < others.count_; ++i) add(others.deps_[static_cast<std::size_t>(i)]);
  }
  bool any() const { return count_ > 0; }
  bool exceed_one_op() const { return count_ > 2; }
  void clear() { count_ = 0; }
  /// Moves the latest ones into the operation.
  void take_into(Op& op) {
    for (Dep& dep : op.deps)
      if (count_ > 0) dep = deps_[--count_];
  }

 private:
  std::array<Dep, 24> deps_{};
  int count_ = 0;
};

/// What the parts of a rank's training step share: the plan as this rank sees it, the operations given so far, and what
/// the next kernel waits for.
struct StepContext {
  const int rank;
  const TrainingPlan& plan;
  const PassTables& tables;
  const TrainingWords& words;
  const TrainingStreams& streams;
  const RankPeers& peers;
  const Coordinates at;
  const StagePlan& stage;
  Emitter out;
  PendingWaits waits;

  StepContext(int rank, const TrainingPlan&, const PassTables&, const TrainingStreams&, const RankPeers&);

  bool shards() const { return plan.zero != ZeroStage::none; }
  bool shards_parameters() const { return plan.zero == ZeroStage::parameters; }
  std::size_t buckets() const { return stage.buckets.size(); }
  /// Buckets that hold gradients of a layer.
  const std::vector<std::size_t>& buckets_of(int layer) const { return buckets_of_layer_[layer]; }
  const Layer& layer(int number) const { return plan.network->layers[number]; }
  /// Among how many ranks ZeRO shards the tensors of a bucket, and which of these this one is.
  struct Shards {
    int count = 1, own = 0;
  };
  const Shards& shards_of(const GradientBucket& bucket) const { return shards_[bucket.experts ? 1 : 0]; }
  /// Of a bucket, after it has been reduced and scattered.
  double own_elements(std::size_t bucket) const {
    return stage.buckets[bucket].elements / shards_of(stage.buckets[bucket]).count;
  }
  /// Without values nobody reads buffers, and a plan may have more of them than there are numbers.
  std::uint16_t buffer(TrainingBuffer b) const { return plan.values ? number_of(b) : unchecked_number_of(b); }

  /// A mark on the compute stream that takes pending waits.
  const Op& take_waits();
  /// Work of the compute stream after all pending waits, at most two.
  const Op& work(const Work&, Kind, GroupId, NameId);
  const Op& change_memory(double bytes, MemoryClass, NameId, Stream = TrainingStreams::compute);
  /// Values: after what has been computed, and after pending waits.
  const Op& call(TrainingCall, const CallArguments& = {});
  /// Values: after what the stream has done, and after `also`.
  const Op& call_on(Stream, TrainingCall, const CallArguments& = {}, Dep also = {});

 private:
  std::vector<std::vector<std::size_t>> buckets_of_layer_;
  std::array<Shards, 2> shards_;  // of tensors that are no expert's, of experts
};

}  // namespace trainyard
