#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/running/simulate_options.hpp"
#include "scenarios/running/steady_window.hpp"
#include "scenarios/running/step_machine.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/progress.hpp"
#include "sim/observers/timeline.hpp"
#include "sim/observers/traffic.hpp"

namespace trainyard {

/// A scenario's steps, simulated as it is made, and what the observers saw.
class StepRun {
 public:
  /// Scenario and plan must outlive it.
  StepRun(const Scenario&, const Plan&, const SimulateOptions&);

  const Scenario& scenario;
  const Plan& planned;
  Names names;
  StepMachine machine;
  Breakdown breakdown;
  Traffic traffic;
  MemoryUse memory;
  Timeline timeline;  ///< empty unless something needs every operation
  SteadyWindow window;
  SimulationResult end;
  TrainingPlan plan;  ///< as it ran: `planned`, where nothing was made faster, with all its steps
  std::unique_ptr<MechanismRun> mechanism;
  std::vector<std::string> streams;

  /// The rank that ends last; where ranks are not in step, the one whose own steps take longest.
  Actor last() const;
  /// Of the steps that are looked at: when they began, for that rank, and how many they are.
  double begin() const { return window.begin(last()).value; }
  double end_of_steps() const { return plan.marks_steps ? window.end(last()).value : end.end.value; }
  double steps() const { return window.steps(); }
  /// Of the steps that are looked at; of all, where these are no other.
  const Traffic& traffic_of_steps() const { return found_traffic_ ? *found_traffic_ : traffic; }
  double traffic_steps() const { return found_traffic_ ? window.steps() : plan.steps; }
  bool in_step() const { return scenario.plan.mechanism->in_step(); }

 private:
  TrainingStates states_;
  std::vector<Traffic> traffic_by_step_;  ///< up to the end of each, while steps are searched for
  std::optional<Traffic> found_traffic_;

  void prepare();
  void find_steps();
  void simulate(const SimulateOptions&);
};

}  // namespace trainyard
