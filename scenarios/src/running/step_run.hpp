#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/running/host_calls.hpp"
#include "scenarios/src/running/simulate_options.hpp"
#include "scenarios/src/running/steady_state.hpp"
#include "scenarios/src/running/step_machine.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/folding/folded_machine.hpp"
#include "sim/folding/operation_count.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/progress.hpp"
#include "sim/observers/timeline.hpp"
#include "sim/observers/traffic.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

/// Returns the reason why no ranks fold, if scenario and options alone decide that; "": folding may be possible.
std::string reason_not_to_fold(const Scenario&, const Plan&, const SimulateOptions&);

/// A simulation of a scenario's steps, and its observers. The constructor runs it.
class StepRun {
 public:
  /// Scenario and plan must outlive the run.
  StepRun(const Scenario&, const Plan&, const SimulateOptions&);

  const Scenario& scenario;
  const Plan& planned;
  const TransportKind transport;
  Names names;
  StepMachine machine;
  Breakdown breakdown;
  Traffic traffic;
  MemoryUse memory;
  Timeline timeline;  ///< empty unless every operation is recorded (`records`)
  SteadyWindow window;
  SimulationResult end;
  std::unique_ptr<Fold> fold;   ///< null: every rank was simulated
  std::string unfolded_reason;  ///< why every rank was simulated; empty: ranks were folded
  /// The factors that ranks share, so that they fold although slow-downs are drawn; null: each rank has its own.
  std::unique_ptr<SlowestReplicas> shared_draws;
  std::unique_ptr<FullPods> full_pods;  ///< the last pod that counts as full; null: no pod does
  TrainingPlan plan;                    ///< the plan as it ran: `planned` with all its steps and attached hosts
  std::unique_ptr<MechanismRun> mechanism;
  std::unique_ptr<HostCallCount> host_calls;  ///< null: ranks are not in step, a search finds the steps, or replicas
                                              ///< meet in another way than by collectives
  std::vector<std::string> streams;

  /// The simulated actor that stands for a rank, and the first rank that an actor stands for. Observers and the
  /// simulated machine know actors, not ranks.
  Actor actor_of_rank(Actor rank) const { return fold && rank < fold->actors() ? fold->class_of(rank) : rank; }
  Actor rank_of(Actor actor) const { return fold ? fold->representative(actor) : actor; }
  bool stands_for(Actor actor, Actor first, Actor last) const;  ///< whether it stands for one of `first` to `last`
  Actor simulated_ranks() const { return fold ? fold->classes() : scenario.ranks(); }
  const Machine& simulated_machine() const { return folded_ ? *folded_ : machine.top(); }
  double operations() const { return counted_ ? counted_->count() : static_cast<double>(end.operations); }

  /// Returns the rank that ends last; if ranks are not in step, the one whose own steps take longest.
  Actor last() const;
  /// Begin and end of the averaged steps for that rank, s, and their number.
  double begin() const { return window.begin(actor_of_rank(last())).value; }
  double end_of_steps() const { return plan.marks_steps ? window.end(actor_of_rank(last())).value : end.end.value; }
  double steps() const { return window.steps(); }
  /// Traffic of `traffic_steps()` steps: the averaged steps after a search, else all steps.
  const Traffic& traffic_of_steps() const { return found_traffic_ ? *found_traffic_ : traffic; }
  double traffic_steps() const { return found_traffic_ ? window.steps() : plan.steps; }
  bool records() const { return records_; }
  /// Returns true if the step may differ, in less than a thousandth, from the one that nobody watches: its kernels run
  /// one by one instead of in sequences, or its ranks have draws of their own.
  bool is_changed_by_watching() const { return is_changed_by_watching_; }
  bool is_synchronous() const { return scenario.plan.mechanism->is_synchronous(); }

 private:
  TrainingStates states_;
  bool records_ = false, is_changed_by_watching_ = false;
  std::vector<Traffic> traffic_by_step_;  ///< traffic up to the end of each step, during a search
  std::optional<Traffic> found_traffic_;

  std::unique_ptr<FoldedMachine> folded_;
  std::unique_ptr<OperationCount> counted_;

  void prepare();
  void make_programs();
  void fold_ranks(const SimulateOptions&, std::span<const LinkChange>);
  Actor most_classes() const;
  std::string fold_equal(std::span<const LinkChange>, bool is_last_way = true);
  std::string fold_full_pods(const SimulateOptions&);
  std::string share_draws(const SimulateOptions&, std::span<const LinkChange>);
  void count_unfused();
  bool meet_themselves() const;
  void find_steps();
  void simulate(const SimulateOptions&);
};

}  // namespace trainyard
