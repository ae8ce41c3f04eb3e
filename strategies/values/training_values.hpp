#pragma once
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/values/compressed_values.hpp"
#include "strategies/values/learner.hpp"
#include "strategies/values/rank_values.hpp"

namespace trainyard {

/// Sums over all ranks if messages carry no values. Each buffer has a sequence of sums: every rank puts in its part and
/// later takes the sum.
class RankSums {
 public:
  explicit RankSums(int ranks) : ranks_(ranks) {}

  void put(Actor rank, std::uint16_t buffer, const Eigen::VectorXd& values);
  /// The next sum of this buffer for the rank. Throws InternalError if a rank has not put in its part yet.
  const Eigen::VectorXd& take(Actor rank, std::uint16_t buffer);

 private:
  struct Sum {
    Eigen::VectorXd values;
    int put = 0, taken = 0;
  };
  struct Turns {
    std::map<int, Sum> sums;          // sums by their number
    std::map<Actor, int> put, taken;  // number of sums that a rank has put in, or taken
  };
  int ranks_;
  std::map<std::uint16_t, Turns> buffers_;
  Eigen::VectorXd last_;
};

/// Values of the timed programs of a training. The calls of operations (see training_calls.hpp) are computed on real
/// arrays, in double, when the operation ends. Every rank has its shards of the parameters, its stored activations, its
/// gradients and its optimizer state. It gets values of other ranks only by the program's messages. Sample i is the
/// same on any rank. In micro-batch m, data rank d takes micro_batch_size samples of the step's global batch, from
/// sample (d · micro_batches + m) · micro_batch_size on.
///
/// By default calls have the meaning for ranks that all-reduce. A mechanism changes it by `register_call`
/// (UpdatePolicy::add_values, MechanismRun::add_values). A call that comes too early, twice or without its input is an
/// InternalError. Errors of a program that cannot be detected give wrong numbers, or NaN for values that a rank does
/// not have.
class TrainingValues {
 public:
  /// All arguments must outlive this object, and this object the run. Throws InternalError if the layers of the plan's
  /// network do not match the layers of `layers/` for the plan's sharding.
  TrainingValues(const TrainingTask&, const TrainingPlan&, Values&);
  /// A small training that runs along with a plan whose replicas each have the whole network.
  TrainingValues(const LearningSetup&, const TrainingPlan&, Values&);
  TrainingValues(const TrainingValues&) = delete;
  TrainingValues& operator=(const TrainingValues&) = delete;

  const UpdateRule& rule() const { return rule_; }
  const TrainingPlan& plan() const { return plan_; }

  // Results.
  /// The replica of a rank, or of another actor that holds parameters.
  Replica& replica(Actor) const;
  /// Returns the replica in a training of the plan's own network.
  numeric::RankParameters& parameters(Actor actor) const {
    return dynamic_cast<numeric::RankParameters&>(replica(actor));
  }
  /// The actor that holds the learned parameters: rank 0, unless a mechanism sets another actor.
  Actor learner() const { return learner_; }
  /// The learned parameters: those of `learner()`, or the mean of all replicas if each has its own.
  Eigen::VectorXd learned_parameters() const;
  /// True if each rank has parameters of its own.
  bool replicas_differ() const { return shared_ ? leaves_all_gather_ : !plan_.through_center; }
  /// Root mean square distance of the replicas from `learned_parameters()`; 0 if all make the same updates.
  double replica_distance() const;
  /// Loss of the global batch of a step, from the ranks with tensor coordinate `tensor`; infinite if a part is missing.
  double loss(int step = 0, int tensor = 0) const;
  const std::vector<StepLoss>& losses(int rank) const { return ranks_.at(rank)->losses(); }

  // For mechanisms, and for tests that call directly.
  /// Executes a call with its meaning for ranks that all-reduce.
  void call(TrainingCall, Actor rank, const CallArguments&);
  /// Defines the meaning of a call from now on.
  template <class Call>
  void register_call(Call call, CallDispatcher::Function function) {
    calls_.register_call(call, std::move(function));
  }
  Eigen::VectorXd& buffer(Actor actor, TrainingBuffer::Kind kind, std::size_t index = 0) {
    return values_.buffer(actor, number_of({kind, index}));
  }
  Values& values() { return values_; }
  RankWork& rank(Actor rank) { return *ranks_.at(rank); }
  numeric::CompressedValues* compressed() { return compressed_.get(); }  ///< null: gradients are not compressed
  /// Adds an actor besides the ranks, with a copy of rank 0's parameters, and makes it the learner.
  Replica& add_learner(Actor);
  void set_learner(Actor actor) { learner_ = actor; }
  /// A rank's part of the sum that a collective computes. In a training of the plan's own network messages carry the
  /// values: the part and the sum are in the ranks' buffers.
  void put(Actor rank, TrainingBuffer, Eigen::VectorXd values);
  const Eigen::VectorXd& sum(Actor rank, TrainingBuffer);
  /// If gradients of a small training are compressed: replaces them by those that a server decodes.
  void push(Actor worker, std::size_t bucket, Eigen::VectorXd& values) const {
    if (coding_) coding_->push(worker, bucket, values);
  }

  void watch(LearningObserver observer) { observer_ = std::move(observer); }
  /// Counts `gradients` applied gradients and passes the event to the observer.
  void note_update(double gradients, LearningEvent event);
  /// Passes on that all replicas have averaged their weights.
  void note_merge() { tell({.kind = LearningEvent::Kind::merge}); }
  double applied_gradients() const { return applied_; }
  /// Sets the number of updates in a worker's weights, if servers hold the weights.
  void set_version(Actor worker, std::uint64_t version) {
    if (rides_) static_cast<LearnerRank&>(rank(worker)).version = version;
  }
  /// Loss of the last gradient that was computed; NaN if there was none.
  double last_loss() const { return shared_ && !shared_->by_rank() ? shared_->last_loss() : last_loss_; }
  /// True if the training has diverged, so that the loss is NaN.
  bool has_diverged() const { return std::isnan(last_loss()) && applied_ > plan_.ranks(); }
  /// Mean loss of the gradients that were computed since the last call; NaN if there were none.
  double take_loss();

 private:
  const UpdateRule& rule_;
  const TrainingPlan& plan_;
  Values& values_;
  CallDispatcher calls_;
  std::unique_ptr<CompressedCoding> coding_;  // null: gradients of a small training are not compressed
  std::vector<std::vector<numeric::LayerPosition>> positions_;  // indexed by stage and layer
  std::unique_ptr<SharedUpdates> shared_;
  std::vector<std::unique_ptr<RankWork>> ranks_;
  std::map<Actor, std::unique_ptr<Replica>> extra_replicas_;
  Actor learner_ = 0;
  std::unique_ptr<numeric::CompressedValues> compressed_;  // null: gradients are not compressed
  bool rides_ = false, leaves_all_gather_ = false;
  RankSums sums_;
  LearningObserver observer_;
  double applied_ = 0, loss_ = 0, losses_ = 0, last_loss_ = std::numeric_limits<double>::quiet_NaN();

  void begin();
  void place_layers();
  void tell(const LearningEvent&);
};

}  // namespace trainyard
