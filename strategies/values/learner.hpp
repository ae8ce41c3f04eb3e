#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "strategies/plan/training_plan.hpp"
#include "strategies/values/compressed_coding.hpp"
#include "strategies/values/layers/optimizer_state.hpp"
#include "strategies/values/learning/learning_task.hpp"
#include "strategies/values/rank_work.hpp"

namespace trainyard {

/// A small training that rides on the timed programs of a larger network: it has a network, samples and an update rule of
/// its own, and takes from the programs who computes a gradient when, of which part of the global batch, and when what
/// comes of it arrives. Its parameters are shared out over the plan's buckets in proportion to their elements.
struct LearningSetup {
  std::shared_ptr<const LearningTask> task;
  UpdateRule rule;
  std::uint64_t seed = 1;              ///< of the order of samples
  std::vector<Eigen::VectorXd> start;  ///< parameters, by rank in turn; empty: the task's own
};

/// Something that happened to gradients, for whoever watches.
struct LearningEvent {
  enum class What : std::uint8_t {
    gradient,  ///< a worker has computed one
    update,    ///< weights have changed
  };
  What what = What::gradient;
  Actor actor = 0;
  Actor worker = -1;            ///< of `update` by one worker's gradient or weights alone: whose; −1: by all
  std::uint64_t version = 0;    ///< updates in the weights: that the gradient was taken at, or after the update
  std::uint32_t staleness = 0;  ///< of `update`: by how many updates the gradient came late
  double loss = 0;              ///< of `gradient`: mean over its samples; NaN where it is computed with others'
};

/// The buckets' parts of the parameters: the first bucket, which the backward pass fills first, is at the end.
std::vector<Eigen::Index> bucket_cuts(const TrainingPlan&, Eigen::Index parameters);

/// What ranks have in common that take the same updates in the same order: sums of gradients are made once, and weights
/// computed once an update.
class SharedUpdates {
 public:
  using Weights = std::shared_ptr<const Eigen::VectorXd>;
  SharedUpdates(const LearningSetup&, const TrainingPlan&, CompressedCoding*);

  Weights first() const { return first_; }
  /// A rank takes a part of the step's gradient, at these weights.
  void compute(int step, const Weights&, const std::vector<Eigen::Index>& samples);
  /// What a rank gives of its own gradient, where gradients are coded.
  void give(int step, Actor rank, Eigen::Index first, const Eigen::VectorXd& values);
  /// Weights after so many updates, the last one by the gradients of the step before.
  Weights after(int updates);
  /// Mean loss of the steps that were summed since the last question; NaN: none was.
  double take_loss();
  double last_loss() const { return last_loss_; }
  CompressedCoding* coding() const { return coding_; }  ///< null: ranks keep no gradients of their own

 private:
  struct Step {
    Weights weights;
    std::vector<Eigen::Index> samples;
    std::vector<Eigen::VectorXd> of_ranks;  ///< gradients, where these are coded
  };
  struct Version {
    Weights weights;
    int taken = 0;  ///< ranks that have gone on to it
  };
  const LearningSetup& setup_;
  const TrainingPlan& plan_;
  CompressedCoding* coding_;
  double batch_;
  Weights first_;
  std::deque<Step> steps_;  // from `oldest_` on
  int oldest_ = 0;
  std::deque<Version> versions_;  // from `oldest_version_` on
  int oldest_version_ = 0;
  OptimizerState optimizer_;
  double loss_ = 0, losses_ = 0, last_loss_ = 0;

  Step& step(int number);
  void advance();
  Eigen::VectorXd summed(Step&);
};

/// All parameters, gradients and states that a rule needs, of one actor.
class LearnerReplica : public Replica {
 public:
  /// `shared`: null where it takes updates of its own.
  LearnerReplica(const LearningSetup&, std::vector<Eigen::Index> cuts, Actor rank,
                 std::shared_ptr<const Eigen::VectorXd> start, SharedUpdates* shared);

  void fill_bucket(std::size_t place, Eigen::VectorXd& buffer) override;
  void keep_gradients(std::size_t place, const Eigen::VectorXd& buffer) override;
  void update(std::size_t set) override;
  void fill_parameters(std::size_t bucket, Eigen::VectorXd& buffer) const override { buffer = parameters_of(bucket); }
  void take_parameters(std::size_t bucket, const Eigen::VectorXd&) override;
  std::size_t buckets() const override { return cuts_.size() - 1; }
  Eigen::VectorXd parameters_of(std::size_t bucket) const override;
  Eigen::VectorXd gradients(std::size_t bucket) const override;
  void set_gradients(std::size_t bucket, const Eigen::VectorXd&) override;
  void clear_gradients(std::size_t bucket) override;
  Eigen::VectorXd all_parameters() const override { return *parameters_; }
  void set_all_parameters(const Eigen::VectorXd& all) override { mine() = all; }
  void apply_gradients(std::size_t set) override;
  void forget_parameters() override;
  int updates() const override { return updates_; }
  std::unique_ptr<Replica> copy() const override { return std::make_unique<LearnerReplica>(*this); }

  std::uint64_t version() const { return static_cast<std::uint64_t>(updates_); }

 private:
  const LearningSetup& setup_;
  std::vector<Eigen::Index> cuts_;  // a bucket is from the cut after its own number to the one at it
  Actor rank_;
  SharedUpdates* shared_;
  std::shared_ptr<const Eigen::VectorXd> parameters_;
  Eigen::VectorXd gradient_;
  OptimizerState optimizer_;
  int updates_ = 0;
  std::vector<int> filled_;  // by bucket: steps whose gradients have left

  bool keeps_gradients() const { return !shared_ || shared_->coding(); }
  Eigen::Index count(std::size_t bucket) const { return cuts_[bucket] - cuts_[bucket + 1]; }
  Eigen::VectorXd& mine();
  friend class LearnerRank;
};

/// The passes of a rank: its gradient is computed when the forward pass of its last layer has ended.
class LearnerRank : public RankWork {
 public:
  using Tell = std::function<void(const LearningEvent&)>;
  LearnerRank(const LearningSetup&, const TrainingPlan&, LearnerReplica, int rank, SharedUpdates*, Values&, Tell);

  const Coordinates& at() const override { return at_; }
  LearnerReplica& replica() override { return replica_; }
  int steps() const override { return steps_; }
  const std::vector<StepLoss>& losses() const override { return losses_; }
  void pass(TrainingCall, const CallArguments&) override;
  const Eigen::MatrixXd& output(int) override { return nothing_; }
  Eigen::MatrixXd loss_gradient(int, const Eigen::MatrixXd&) override { return nothing_; }
  void give_output_gradient(int, const Eigen::MatrixXd&) override {}

  std::uint64_t version = 0;  ///< updates in its weights, where servers keep them

 private:
  const LearningSetup& setup_;
  const TrainingPlan& plan_;
  Actor rank_;
  Coordinates at_;
  LearnerReplica replica_;
  SharedUpdates* shared_;
  Values& values_;
  Tell tell_;
  SampleOrder order_;
  int steps_ = 0, micro_batches_ = 0;
  std::vector<StepLoss> losses_;
  const Eigen::MatrixXd nothing_;

  void compute(int micro_batch);
};

}  // namespace trainyard
