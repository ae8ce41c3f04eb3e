#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/values/compressed_values.hpp"
#include "strategies/values/learner.hpp"
#include "strategies/values/rank_values.hpp"

namespace trainyard {

/// Sums over all ranks, made where no message carries values: of each buffer one after the other, as ranks put their
/// parts in and take the sum out.
class RankSums {
 public:
  explicit RankSums(int ranks) : ranks_(ranks) {}

  void put(Actor rank, std::uint16_t buffer, const Eigen::VectorXd& values);
  /// The sum that the rank's next turn of this buffer is about. Throws InternalError before all have put theirs in.
  const Eigen::VectorXd& take(Actor rank, std::uint16_t buffer);

 private:
  struct Sum {
    Eigen::VectorXd values;
    int put = 0, taken = 0;
  };
  struct Turns {
    std::map<int, Sum> sums;          // by turn
    std::map<Actor, int> put, taken;  // by rank: turns
  };
  int ranks_;
  std::map<std::uint16_t, Turns> buffers_;
  Eigen::VectorXd last_;
};

/// Numbers that ride on the timed programs of a training: whatever ops say in calls (see training_calls.hpp) is computed
/// on real arrays, in double, when the operation ends. Every rank has its shards of the parameters, the activations it
/// keeps, its gradients and its optimizer's state, and knows of the others what the program's messages bring. Sample i of
/// the training is the same whoever has it: data rank d takes in micro-batch m those from
/// (d · micro_batches + m) · micro_batch_size on, of the step's global batch.
///
/// What calls mean is what they mean to ranks that all-reduce; a mechanism changes that by `on` (UpdatePolicy::add_values,
/// MechanismRun::add_values). What the program asks for too early, twice or without its input is an InternalError; where
/// it can only be wrong numbers, or NaN for what a rank does not have, it is these.
class TrainingValues {
 public:
  /// Task, plan and values must live as long, and all of them until the run has ended. Throws InternalError where layers
  /// of the plan's network are not those that values know for the plan's sharding.
  TrainingValues(const TrainingTask&, const TrainingPlan&, Values&);
  /// A small training that rides on a plan of replicas that each have the whole network.
  TrainingValues(const LearningSetup&, const TrainingPlan&, Values&);
  TrainingValues(const TrainingValues&) = delete;
  TrainingValues& operator=(const TrainingValues&) = delete;

  const UpdateRule& rule() const { return rule_; }
  const TrainingPlan& plan() const { return plan_; }

  // What came of it.
  /// Of a rank, or of another actor that holds parameters.
  Replica& replica(Actor) const;
  /// The same of a training of the plan's own network.
  numeric::RankParameters& parameters(Actor actor) const {
    return dynamic_cast<numeric::RankParameters&>(replica(actor));
  }
  /// Whose parameters are what was learned: rank 0, where no mechanism says another actor.
  Actor learner() const { return learner_; }
  /// What was learned: that actor's parameters, or the mean of all replicas' where each has its own.
  Eigen::VectorXd learned() const;
  /// How far the replicas are from it: the root of the mean square over ranks. 0 where all take the same updates.
  double apart() const;
  /// Of the global batch of one step, as the ranks of tensor coordinate `tensor` have it; infinite where a part is
  /// missing.
  double loss(int step = 0, int tensor = 0) const;
  const std::vector<StepLoss>& losses(int rank) const { return ranks_.at(static_cast<std::size_t>(rank))->losses(); }

  // For mechanisms, and whoever calls by hand.
  /// One call, as it is meant to a rank that all-reduces.
  void call(TrainingCall, Actor rank, const CallArguments&);
  /// What a call means from now on.
  template <class Call>
  void on(Call call, CallDispatcher::Function function) {
    calls_.on(call, std::move(function));
  }
  Eigen::VectorXd& buffer(Actor actor, TrainingBuffer::Kind kind, std::size_t index = 0) {
    return values_.buffer(actor, number_of({kind, index}));
  }
  Values& values() { return values_; }
  RankWork& rank(Actor rank) { return *ranks_.at(static_cast<std::size_t>(rank)); }
  numeric::CompressedValues* compressed() { return compressed_.get(); }  ///< null: gradients travel whole
  /// An actor beside the ranks that holds a copy of rank 0's parameters, and what is learned from now on.
  Replica& add_learner(Actor);
  void set_learner(Actor actor) { learner_ = actor; }
  /// A collective's sum over the ranks, of what each puts in. Messages carry it where the training is of the plan's own
  /// network: it is in the ranks' buffers then.
  void put(Actor rank, TrainingBuffer, Eigen::VectorXd values);
  const Eigen::VectorXd& sum(Actor rank, TrainingBuffer);
  /// What a server is given in place of these gradients, where they are coded.
  void push(Actor worker, std::size_t bucket, Eigen::VectorXd& values) const {
    if (coding_) coding_->push(worker, bucket, values);
  }

  // For whoever watches what is learned.
  using Watch = std::function<void(const LearningEvent&)>;
  void watch(Watch watch) { watch_ = std::move(watch); }
  /// Weights of `actor` have changed by so many of the workers' gradients, which is told with the event.
  void applied(double gradients, LearningEvent event);
  double applied() const { return applied_; }
  /// Updates in the weights that a worker has, where servers keep them.
  void set_version(Actor worker, std::uint64_t version) {
    if (rides_) static_cast<LearnerRank&>(rank(worker)).version = version;
  }
  /// Of the last gradient that was taken; NaN, before any.
  double last_loss() const { return shared_ && !coding_ ? shared_->last_loss() : last_loss_; }
  /// Is it no number any more?
  bool lost() const { return std::isnan(last_loss()) && applied_ > plan_.ranks(); }
  /// Mean loss of the gradients that were taken since the last question; NaN: none was.
  double take_loss();

 private:
  const UpdateRule& rule_;
  const TrainingPlan& plan_;
  Values& values_;
  CallDispatcher calls_;
  std::unique_ptr<CompressedCoding> coding_;       // null: gradients are exchanged as they are
  std::vector<numeric::LayerPosition> positions_;  // by layer
  std::unique_ptr<SharedUpdates> shared_;
  std::vector<std::unique_ptr<RankWork>> ranks_;
  std::map<Actor, std::unique_ptr<Replica>> beside_;
  Actor learner_ = 0;
  std::unique_ptr<numeric::CompressedValues> compressed_;  // null: gradients are exchanged whole
  bool rides_ = false;
  RankSums sums_;
  Watch watch_;
  double applied_ = 0, loss_ = 0, losses_ = 0, last_loss_ = std::numeric_limits<double>::quiet_NaN();

  bool each_its_own() const { return !shared_ && !plan_.through_center; }
  void begin();
  void place_layers();
  void tell(const LearningEvent&);
};

}  // namespace trainyard
