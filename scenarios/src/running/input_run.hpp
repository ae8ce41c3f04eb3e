#pragma once
#include <memory>

#include "scenarios/src/reading/read_input.hpp"
#include "sim/program.hpp"
#include "strategies/plan/training_plan.hpp"
#include "topologies/machines/input_machine.hpp"

namespace trainyard {

/// The input pipeline of a training, on its machine: loaders and readers beside the ranks.
class InputRun {
 public:
  /// Throws UserError with the place if samples have no path to a rank.
  InputRun(const InputChoice&, const Mesh&, std::int64_t micro_batch_size, ClusterMachine&);

  InputMachine& machine() { return machine_; }
  const InputMachine& machine() const { return machine_; }
  /// Lets the ranks of a plan get their samples from it, in all steps of the plan.
  void feed(TrainingPlan&);
  /// Appends the programs of all other actors to those of the ranks.
  void add_to(Programs&, Names&);
  InputPlan& plan() { return plan_; }

 private:
  std::vector<std::vector<Actor>> groups_;
  InputMachine machine_;
  InputPlan plan_;
  std::unique_ptr<InputWords> words_;
};

}  // namespace trainyard
