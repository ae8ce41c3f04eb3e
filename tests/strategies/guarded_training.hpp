#pragma once
#include <memory>
#include <vector>

#include "sim/executor/executor.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {

/// Synchronous data-parallel training, with values, that survives failures. A leader sends the weights to the workers,
/// and each worker sends its gradient back. The leader adds the gradients in the order of the ranks, scales the sum up
/// to all ranks, updates, and saves its state, with that of the optimizer, in a store every few steps. If a worker's
/// gradient does not come in time, the others continue without the worker, or wait until it is back. A restarted leader
/// continues from the saved state. The tag of a message contains the step and the number of the leader's restarts, so
/// that late messages are recognized and dropped.
struct GuardedPlan {
  int workers = 1;  ///< actors 0 … workers−1; actor `workers` is the leader, the next one the store
  int steps = 1;
  int save_every = 1;     ///< number of steps between saves
  bool elastic = true;    ///< continue without a dead worker; false: wait for it
  Work gradient, update;  ///< work of a step
  Work timeout;           ///< work of a Kind::delay that starts when the weights are sent
  Bytes weights;          ///< size of the weights, and of a gradient

  Actor leader() const { return workers; }
  Actor store() const { return workers + 1; }
};

/// An update that the leader made: its step, and the workers whose gradients it used.
struct GuardedUpdate {
  int step = 0;
  std::vector<int> workers;
};

/// State that the programs of one run share. It must outlive the simulation.
class GuardedTraining {
 public:
  /// The values must be made for a plan with one rank for each worker.
  GuardedTraining(const GuardedPlan&, TrainingValues&, Executor&);
  GuardedTraining(const GuardedTraining&) = delete;
  GuardedTraining& operator=(const GuardedTraining&) = delete;

  std::unique_ptr<Program> worker(int rank, bool rejoins = false) const;  ///< rejoins: it joins a running training
  std::unique_ptr<Program> leader(int life = 0) const;                    ///< life: how often it has failed
  std::unique_ptr<Program> store() const;

  const std::vector<GuardedUpdate>& updates() const { return updates_; }  ///< in order of time, lost updates included
  int step() const;                                                       ///< number of updates in the leader's weights
  const GuardedPlan& plan() const { return plan_; }
  Executor& executor() const { return executor_; }
  Eigen::VectorXd& state(Actor) const;
  void set_contributors(std::vector<int> workers) const { contributors_ = std::move(workers); }

 private:
  const GuardedPlan plan_;
  TrainingValues& values_;
  Executor& executor_;
  Replica& leader_;
  mutable std::vector<int> contributors_;  // workers of the present update
  std::vector<GuardedUpdate> updates_;

  void compute(Actor worker);
  void update();
  void begin_life(int life);
};

}  // namespace trainyard
