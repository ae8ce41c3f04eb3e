#pragma once
#include <map>
#include <memory>
#include <vector>

#include "strategies/values/compressed_values.hpp"
#include "strategies/values/rank_values.hpp"

namespace trainyard {

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
  TrainingValues(const TrainingValues&) = delete;
  TrainingValues& operator=(const TrainingValues&) = delete;

  const TrainingTask& task() const { return task_; }
  const TrainingPlan& plan() const { return plan_; }

  // What came of it.
  /// Of a rank, or of another actor that holds parameters.
  numeric::RankParameters& parameters(Actor) const;
  /// Whose parameters are what was learned: rank 0, where no mechanism says another actor.
  Actor learner() const { return learner_; }
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
  numeric::RankValues& rank(Actor rank) { return *ranks_.at(static_cast<std::size_t>(rank)); }
  numeric::CompressedValues* compressed() { return compressed_.get(); }  ///< null: gradients travel whole
  /// An actor beside the ranks that holds a copy of rank 0's parameters, and what is learned from now on.
  numeric::RankParameters& add_learner(Actor);
  void set_learner(Actor actor) { learner_ = actor; }

 private:
  const TrainingTask& task_;
  const TrainingPlan& plan_;
  Values& values_;
  CallDispatcher calls_;
  std::vector<numeric::LayerPosition> positions_;  // by layer
  std::vector<std::unique_ptr<numeric::RankValues>> ranks_;
  std::map<Actor, std::unique_ptr<numeric::RankParameters>> beside_;
  Actor learner_ = 0;
  std::unique_ptr<numeric::CompressedValues> compressed_;  // null: gradients are exchanged whole

  void place_layers();
};

}  // namespace trainyard
