#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/plan/training_plan.hpp"
#include "strategies/values/compressed_values.hpp"
#include "strategies/values/layers/parameter_update.hpp"
#include "strategies/values/layers/update_rule.hpp"
#include "strategies/values/learning/learning_task.hpp"
#include "strategies/values/rank_work.hpp"

namespace trainyard {

/// A small training that runs along with the timed programs of a larger network. It has its own network, samples and
/// update rule. The programs decide which rank computes a gradient of which part of the global batch at what time, and
/// when the result arrives. Its parameters are distributed over the plan's buckets in proportion to their elements.
struct LearningSetup {
  std::shared_ptr<const LearningTask> task;
  UpdateRule rule;
  std::uint64_t seed = 1;  ///< seed of the order of samples
  /// Each rank updates only its slice of the weights, with the gradients of all, and keeps the initial weights
  /// elsewhere: a reduce-scatter without the all-gather after it.
  bool leaves_all_gather = false;
  std::vector<Eigen::VectorXd> start;  ///< initial parameters, assigned to ranks in turn; empty: those of the task
};

/// An event of the training, for observers.
struct LearningEvent {
  enum class Kind : std::uint8_t {
    gradient,  ///< a worker has computed a gradient
    update,    ///< an actor's weights have changed
    merge,     ///< all replicas have averaged their weights
  };
  Kind kind = Kind::gradient;
  Actor actor = 0;
  Actor worker = -1;            ///< for `update`: the only worker whose gradient or weights were applied; −1: all
  std::uint64_t version = 0;    ///< number of updates in the weights: for `gradient` before it, for `update` after it
  std::uint32_t staleness = 0;  ///< for `update`: number of updates that the gradient missed
  double lambda = 1;            ///< for `update`: factor on the gradient, or share of a worker's weights in the mean
  double loss = 0;              ///< for `gradient`: mean over its samples; NaN if ranks compute it together
};
using LearningObserver = std::function<void(const LearningEvent&)>;

/// Boundaries of the buckets in the parameters. The first bucket, which the backward pass fills first, is at the end.
std::vector<Eigen::Index> bucket_cuts(const TrainingPlan&, Eigen::Index parameters);

/// State shared by ranks that apply the same updates in the same order. Gradients are summed once, and weights are
/// computed once for each update.
class SharedUpdates {
 public:
  using Weights = std::shared_ptr<const Eigen::VectorXd>;
  SharedUpdates(const LearningSetup&, const TrainingPlan&, CompressedCoding*);

  Weights first() const { return first_; }
  /// Adds a rank's part of the step's gradient: that of these samples, for these weights.
  void compute(int step, const Weights&, const std::vector<Eigen::Index>& samples);
  /// Takes a part of one rank's gradient, from element `first` on. Only if gradients are kept by rank.
  void give(int step, Actor rank, Eigen::Index first, const Eigen::VectorXd& values);
  /// The weights after this number of updates. Update number u applies the gradients of step u − 1.
  Weights weights_after(int updates);
  /// First element and number of elements of the slice that a rank updates, if each has its own.
  std::pair<Eigen::Index, Eigen::Index> slice_of(Actor rank) const;
  /// Mean loss of the steps that were summed since the last call; NaN if there were none.
  double take_loss();
  double last_loss() const { return last_loss_; }
  /// True if gradients are kept by rank until they are summed; false if the sum over all samples is computed at once.
  bool by_rank() const { return coding_ || (setup_.leaves_all_gather && plan_.ranks() > 1); }
  const OptimizerState& optimizer() const { return optimizer_; }  ///< state of the newest weights

 private:
  struct Step {
    Weights weights;
    std::vector<Eigen::Index> samples;
    std::vector<Eigen::VectorXd> rank_gradients;  ///< indexed by rank; empty unless by_rank()
  };
  struct Version {
    Weights weights;
    int taken = 0;  ///< number of ranks that have taken it
  };
  const LearningSetup& setup_;
  const TrainingPlan& plan_;
  CompressedCoding* coding_;
  double batch_;
  Weights first_;
  std::deque<Step> steps_;  // the first one is step `oldest_`
  int oldest_ = 0;
  std::deque<Version> versions_;  // the first one is version `oldest_version_`
  int oldest_version_ = 0;
  OptimizerState optimizer_;
  double loss_ = 0, losses_ = 0, last_loss_ = 0;

  Step& step(int number);
  void advance();
  Eigen::VectorXd sum_gradients(Step&);
};

/// Parameters, gradients and optimizer state of one actor in a small training.
class LearnerReplica : public Replica {
 public:
  /// `shared`: null if the replica makes its own updates.
  LearnerReplica(const LearningSetup&, std::vector<Eigen::Index> cuts, Actor rank,
                 std::shared_ptr<const Eigen::VectorXd> start, SharedUpdates* shared);

  void fill_bucket(std::size_t place, Eigen::VectorXd& buffer) override;
  void keep_gradients(std::size_t place, const Eigen::VectorXd& buffer) override;
  void update(std::size_t set) override;
  void fill_parameters(std::size_t bucket, Eigen::VectorXd& buffer) const override;
  void take_parameters(std::size_t bucket, const Eigen::VectorXd&) override;
  std::size_t buckets() const override { return cuts_.size() - 1; }
  Eigen::VectorXd gradients(std::size_t bucket) const override;
  void set_gradients(std::size_t bucket, const Eigen::VectorXd&) override;
  void clear_gradients(std::size_t bucket) override;
  Eigen::VectorXd all_parameters() const override { return *parameters_; }
  void set_all_parameters(const Eigen::VectorXd& all) override { own_parameters() = all; }
  Eigen::VectorXd all_gradients() const override { return gradient_; }
  void set_all_gradients(const Eigen::VectorXd& all) override { gradient_ = all; }
  Eigen::VectorXd state() const override;
  void set_state(const Eigen::VectorXd&) override;
  void apply_gradients(std::size_t set) override;
  void forget_parameters() override;
  int updates() const override { return updates_; }
  std::unique_ptr<Replica> copy() const override { return std::make_unique<LearnerReplica>(*this); }

 private:
  const LearningSetup& setup_;
  std::vector<Eigen::Index> cuts_;  // bucket b is the elements [cuts_[b + 1], cuts_[b])
  Actor rank_;
  SharedUpdates* shared_;
  std::shared_ptr<const Eigen::VectorXd> parameters_;
  Eigen::VectorXd gradient_;
  OptimizerState optimizer_;
  int updates_ = 0;
  std::vector<int> filled_;  // indexed by bucket: number of steps whose gradients were sent

  bool keeps_gradients() const { return !shared_ || shared_->by_rank(); }
  Eigen::Index count(std::size_t bucket) const { return cuts_[bucket] - cuts_[bucket + 1]; }
  Eigen::VectorXd& own_parameters();
  friend class LearnerRank;
};

/// The passes of a rank in a small training. It computes its gradient when the forward pass of its last layer has
/// ended.
class LearnerRank : public RankWork {
 public:
  LearnerRank(const LearningSetup&, const TrainingPlan&, LearnerReplica, int rank, SharedUpdates*, Values&,
              LearningObserver);

  const Coordinates& coordinates() const override { return coordinates_; }
  LearnerReplica& replica() override { return replica_; }
  int steps() const override { return steps_; }
  const std::vector<StepLoss>& losses() const override { return losses_; }
  void pass(TrainingCall, const CallArguments&) override;
  void begin_at(int step) override;
  Eigen::VectorXd whole_step(int step) override;
  const Eigen::MatrixXd& output(int) override { return nothing_; }
  Eigen::MatrixXd loss_gradient(int, const Eigen::MatrixXd&) override { return nothing_; }
  void give_output_gradient(int, const Eigen::MatrixXd&) override {}

  std::uint64_t version = 0;  ///< number of updates in its weights, if servers hold the weights

 private:
  const LearningSetup& setup_;
  const TrainingPlan& plan_;
  Actor rank_;
  Coordinates coordinates_;
  LearnerReplica replica_;
  SharedUpdates* shared_;
  Values& values_;
  LearningObserver observer_;
  SampleOrder order_;
  int steps_ = 0, micro_batches_ = 0;
  std::vector<StepLoss> losses_;
  const Eigen::MatrixXd nothing_;

  void compute(int micro_batch);
};

}  // namespace trainyard
