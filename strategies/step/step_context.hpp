#pragma once
#include <algorithm>
#include <array>

#include "sim/ops.hpp"
#include "strategies/collectives/emitter.hpp"
#include "strategies/plan/training_buffers.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/step/rank_peers.hpp"
#include "strategies/step/training_streams.hpp"

namespace trainyard {

/// The dependencies that the next operation of the compute stream waits for, besides the operation before it. An
/// operation holds two; if there are more, marks before it take the others.
class PendingWaits {
 public:
  /// If there is no room left, the dependency is merged with another one on its stream: operations of a stream end in
  /// order.
  void add(Dep dep) {
    const bool has_room = count_ < static_cast<int>(deps_.size());
    const auto same = has_room ? deps_.end() : std::ranges::find(deps_, dep.stream, &Dep::stream);
    if (same == deps_.end())
      deps_.at(count_++) = dep;
    else
      same->count = std::max(same->count, dep.count);
  }
  void add(const PendingWaits& others) {
    for (int i = 0; i < others.count_; ++i) add(others.deps_[i]);
  }
  bool has_any() const { return count_ > 0; }
  bool exceed_one_op() const { return count_ > 2; }
  void clear() { count_ = 0; }
  /// Moves the latest dependencies into the operation.
  void take_into(Op& op) {
    for (Dep& dep : op.deps)
      if (count_ > 0) dep = deps_[--count_];
  }

 private:
  std::array<Dep, 24> deps_{};
  int count_ = 0;
};

/// State that the parts of a rank's training step share: the plan as this rank sees it, the operations yielded so far,
/// and the pending dependencies of the next kernel.
struct StepContext {
  const int rank;
  const TrainingPlan& plan;
  const PassTables& tables;
  const TrainingNames& words;
  const TrainingStreams& streams;
  const RankPeers& peers;
  const Coordinates place;
  const StagePlan& stage;
  const int load;  ///< see TrainingPlan::load_number
  Emitter out;
  PendingWaits waits;

  StepContext(int rank, const TrainingPlan&, const PassTables&, const TrainingStreams&, const RankPeers&);

  bool shards() const { return plan.zero != ZeroStage::none; }
  bool shards_parameters() const { return plan.zero == ZeroStage::parameters; }
  std::size_t buckets() const { return stage.buckets.size(); }
  /// The buckets that hold gradients of a layer.
  const std::vector<std::size_t>& buckets_of(int layer) const { return buckets_of_layer_[layer]; }
  const Layer& layer(int number) const { return plan.network_of_load(load).layers[number]; }
  /// Number of ranks over which ZeRO shards the tensors of a bucket, and the index of this rank among them.
  struct Shards {
    int count = 1, own = 0;
  };
  const Shards& shards_of(const GradientBucket& bucket) const { return shards_[bucket.experts ? 1 : 0]; }
  /// Number of elements of a bucket that the rank has after reduce and scatter.
  double own_elements(std::size_t bucket) const {
    return stage.buckets[bucket].elements / shards_of(stage.buckets[bucket]).count;
  }
  /// Returns a buffer's number. A plan without values may have more buffers than there are numbers, since nothing reads
  /// them.
  std::uint16_t buffer(TrainingBuffer b) const { return plan.values ? number_of(b) : unchecked_number_of(b); }

  /// Emits a mark on the compute stream that takes pending waits.
  const Op& take_waits();
  /// Emits work on the compute stream, which takes pending waits (at most two).
  const Op& work(const Work&, Kind, GroupId, NameId);
  const Op& change_memory(double bytes, MemoryClass, NameId, Stream = TrainingStreams::compute);
  /// Emits a call of values, after everything on the compute stream and pending waits.
  const Op& call(TrainingCall, const CallArguments& = {});
  /// Emits a call of values, after everything on the stream and `also`.
  const Op& call_on(Stream, TrainingCall, const CallArguments& = {}, Dep also = {});

 private:
  std::vector<std::vector<std::size_t>> buckets_of_layer_;
  std::array<Shards, 2> shards_;  // for tensors outside experts, and for experts
};

}  // namespace trainyard
