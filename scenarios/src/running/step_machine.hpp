#pragma once
#include <memory>
#include <vector>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/input_run.hpp"
#include "topologies/machines/placed_machine.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard {

/// The machine of a scenario's step: its cluster, and what stands before it where the scenario has it.
class StepMachine {
 public:
  /// Throws UserError for actors or drives without a place.
  StepMachine(const Scenario&, const Plan&);
  StepMachine(const StepMachine&) = delete;
  StepMachine& operator=(const StepMachine&) = delete;

  ClusterMachine cluster;
  std::unique_ptr<InputRun> input;  ///< drives, loaders

  Machine& top() { return *top_; }
  const Machine& top() const { return *top_; }
  /// On a CPU.
  bool on_host(Actor actor) const { return (placed_ ? placed_->place(actor) : actor) >= cluster.spec().gpus(); }

  /// Actors that are no ranks and have the place of a rank.
  std::vector<Actor> others_on(Actor rank) const;

 private:
  std::size_t ranks_ = 0;
  std::vector<PlacedMachine::Placed> actors_;  // empty: the cluster's own
  std::unique_ptr<PlacedMachine> placed_;
  std::unique_ptr<StragglerMachine> stragglers_;  // asked for each operation: not where nobody straggles
  Machine* top_ = &cluster;
};

}  // namespace trainyard
