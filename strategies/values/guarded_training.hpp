#pragma once
#include <Eigen/Core>
#include <functional>
#include <memory>
#include <vector>

#include "sim/executor/executor.hpp"
#include "sim/observers/values.hpp"

namespace trainyard {

/// Synchronous data-parallel training that lives through failures, with values: a leader sends the weights to the
/// workers, each sends its gradient back, the leader adds them in the order of the ranks, updates, and saves its state
/// in a store every few steps. A worker whose gradient does not come in time is taken for dead: the others go on
/// without it, or wait until it is back. A leader that comes back goes on from what the store has. Messages say which step,
/// and which life of the leader, they belong to: what is late belongs to none and is dropped.
struct GuardedPlan {
  int workers = 1;  ///< actors 0 … workers−1; the leader is actor `workers`, the store the one after
  int steps = 1;
  int save_every = 1;     ///< steps
  bool elastic = true;    ///< go on without a dead worker; else wait for it
  Work gradient, update;  ///< of a step
  Work timeout;           ///< of Kind::delay: from the sending of the weights
  Bytes weights;          ///< also of a gradient
  double rate = 0.1;      ///< of learning
  Eigen::VectorXd start;  ///< weights
  /// A worker's gradient at weights.
  std::function<Eigen::VectorXd(int worker, int step, const Eigen::VectorXd& weights)> function;

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
  GuardedTraining(GuardedPlan, Values&, Executor&);

  std::unique_ptr<Program> worker(int rank, bool back = false) const;  ///< back: it joins a training that goes on
  std::unique_ptr<Program> leader(int life = 0) const;                 ///< life > 0: it has failed so many times
  std::unique_ptr<Program> store() const;

  const std::vector<GuardedUpdate>& updates() const { return updates_; }  ///< in the order of time, lost ones too
  Eigen::VectorXd weights() const;                                        ///< the leader's
  int step() const;                                                       ///< updates in these
  const GuardedPlan& plan() const { return plan_; }
  Executor& executor() const { return executor_; }
  Eigen::VectorXd& state(Actor actor) const { return values_.buffer(actor, 0); }
  void set_contributors(std::vector<int> workers) const { contributors_ = std::move(workers); }

 private:
  GuardedPlan plan_;
  Values& values_;
  Executor& executor_;
  mutable std::vector<int> contributors_;  // to the update under way
  std::vector<GuardedUpdate> updates_;

  void update();
};

/// The same updates one after the other in a plain loop: of each step the last that was made, which is what survived.
Eigen::VectorXd replay(const GuardedPlan&, const std::vector<GuardedUpdate>&);

}  // namespace trainyard
