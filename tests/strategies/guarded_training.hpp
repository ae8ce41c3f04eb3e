#pragma once
#include <memory>
#include <vector>

#include "sim/executor/executor.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {

/// Synchronous data-parallel training that lives through failures, with values: a leader sends the weights to the
/// workers, each sends its gradient back, the leader adds them in the order of the ranks, scales the sum up to all ranks,
/// updates, and saves its state (the optimizer's too) in a store every few steps. A worker whose gradient does not come in
/// time is taken for dead: the others go on without it, or wait until it is back. A leader that comes back goes on from
/// what the store has. Messages say which step, and which life of the leader, they belong to: what is late belongs to none
/// and is dropped.
struct GuardedPlan {
  int workers = 1;  ///< actors 0 … workers−1; the leader is actor `workers`, the store the one after
  int steps = 1;
  int save_every = 1;     ///< steps
  bool elastic = true;    ///< go on without a dead worker; else wait for it
  Work gradient, update;  ///< of a step
  Work timeout;           ///< of Kind::delay: from the sending of the weights
  Bytes weights;          ///< also of a gradient

  Actor leader() const { return workers; }
  Actor store() const { return workers + 1; }
};

/// An update that the leader made: of which step, from whose gradients.
struct GuardedUpdate {
  int step = 0;
  std::vector<int> workers;
};

/// Everything that the programs of one run share. It must outlive the simulation.
class GuardedTraining {
 public:
  /// The values are of a plan with as many ranks as there are workers.
  GuardedTraining(const GuardedPlan&, TrainingValues&, Executor&);
  GuardedTraining(const GuardedTraining&) = delete;
  GuardedTraining& operator=(const GuardedTraining&) = delete;

  std::unique_ptr<Program> worker(int rank, bool back = false) const;  ///< back: it joins a training that goes on
  std::unique_ptr<Program> leader(int life = 0) const;                 ///< life > 0: it has failed so many times
  std::unique_ptr<Program> store() const;

  const std::vector<GuardedUpdate>& updates() const { return updates_; }  ///< in the order of time, lost ones too
  int step() const;                                                       ///< updates in the leader's weights
  const GuardedPlan& plan() const { return plan_; }
  Executor& executor() const { return executor_; }
  Eigen::VectorXd& state(Actor) const;
  void set_contributors(std::vector<int> workers) const { contributors_ = std::move(workers); }

 private:
  const GuardedPlan plan_;
  TrainingValues& values_;
  Executor& executor_;
  numeric::RankParameters& leader_;
  mutable std::vector<int> contributors_;  // to the update under way
  std::vector<GuardedUpdate> updates_;

  void compute(Actor worker);
  void update();
  void begin_life(int life);
};

}  // namespace trainyard
