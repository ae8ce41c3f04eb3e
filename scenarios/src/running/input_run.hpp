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
  /// Throws UserError with the place where samples have no way.
  InputRun(const InputChoice&, const Mesh&, std::int64_t micro_batch_size, ClusterMachine&);

  InputMachine& machine() { return machine_; }
  const InputMachine& machine() const { return machine_; }
  /// Ranks get their samples from it, for all of the plan's steps.
  void feed(TrainingPlan&);
  /// After the programs of the ranks: those of all other actors.
  void add_to(Programs&, Names&);
  InputPlan& plan() { return plan_; }

 private:
  std::vector<std::vector<Actor>> groups_;
  InputMachine machine_;
  InputPlan plan_;
  std::unique_ptr<InputWords> words_;
};

}  // namespace trainyard
