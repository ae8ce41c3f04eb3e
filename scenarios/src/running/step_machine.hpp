#pragma once
#include <memory>
#include <vector>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/read_input.hpp"
#include "sim/program.hpp"
#include "strategies/plan/training_plan.hpp"
#include "topologies/machines/input_machine.hpp"
#include "topologies/machines/placed_machine.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard {

/// The input pipeline of a training, on its machine: loaders and readers beside the ranks.
class InputRun {
 public:
  /// Throws UserError with the place if samples have no path to a rank.
  InputRun(const InputChoice&, const Mesh&, std::int64_t micro_batch_size, ClusterMachine&);

  InputMachine& machine() { return machine_; }
  /// Lets the ranks of a plan get their samples from it, in all steps of the plan.
  void feed(TrainingPlan&);
  /// Appends the programs of all other actors to those of the ranks.
  void add_to(Programs&, Names&);
  InputPlan& plan() { return plan_; }

 private:
  std::vector<std::vector<Actor>> groups_;
  InputMachine machine_;
  InputPlan plan_;
  std::unique_ptr<InputNames> words_;
};

/// The machine of a scenario's step: its cluster, and the machines in front of it if the scenario has them (placed
/// actors, input, stragglers).
class StepMachine {
 public:
  /// Throws UserError for actors or drives that have no place.
  StepMachine(const Scenario&, const Plan&);
  StepMachine(const StepMachine&) = delete;
  StepMachine& operator=(const StepMachine&) = delete;

  ClusterMachine cluster;
  std::unique_ptr<InputRun> input;  ///< loaders of samples; null: none

  Machine& top() { return *top_; }
  const Machine& top() const { return *top_; }
  /// The machine of the stragglers; null: nobody straggles.
  StragglerMachine* stragglers() { return stragglers_.get(); }
  /// Returns true if an actor runs on a CPU.
  bool on_host(Actor actor) const { return (placed_ ? placed_->place(actor) : actor) >= cluster.spec().gpus(); }

  /// Returns the changes of links by faults and background traffic. Throws UserError for unknown links, and for both at
  /// once.
  std::vector<LinkChange> link_changes(const Scenario&) const;
  /// Returns the actors that are not ranks but share the device of a rank.
  std::vector<Actor> others_on(Actor rank) const;

 private:
  std::size_t ranks_ = 0;
  std::vector<PlacedMachine::PlacedActor> actors_;  // empty: the actors of the cluster
  std::unique_ptr<PlacedMachine> placed_;
  std::unique_ptr<StragglerMachine> stragglers_;  // null if nobody straggles, because it costs time for each operation
  Machine* top_ = &cluster;
};

}  // namespace trainyard
