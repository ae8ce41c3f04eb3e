#pragma once
#include <memory>
#include <string>
#include <vector>

#include "scenarios/running/simulate.hpp"
#include "scenarios/running/steady_window.hpp"
#include "scenarios/running/step_machine.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/progress.hpp"
#include "sim/observers/timeline.hpp"
#include "sim/observers/traffic.hpp"
#include "strategies/mechanisms/servers/server_board.hpp"
#include "strategies/step/training_program.hpp"

namespace trainyard {

/// A scenario's steps, simulated as it is made, and what the observers saw.
class StepRun {
 public:
  /// The scenario must outlive it.
  StepRun(const Scenario&, const SimulateOptions&);

  Names names;
  StepMachine machine;
  std::unique_ptr<ServerBoard> board;  ///< of parameter servers: their own account
  Breakdown breakdown;
  Traffic traffic;
  MemoryUse memory;
  Timeline timeline;  ///< empty unless something needs every operation
  SteadyWindow window;
  SimulationResult end;
  TrainingPlan plan;
  std::vector<std::string> streams;
  bool central = false;  ///< nothing is all-reduced

  /// Of the steps that are looked at: when they began, for the rank that ends last, and how many they are.
  double begin() const { return window.begin(breakdown.last()).value; }
  double end_of_steps() const { return plan.marks_steps ? window.end(breakdown.last()).value : end.end.value; }
  double steps() const { return plan.steps - scenario_.warm_steps; }
  /// All workers do each step together: always, but for some parameter servers.
  bool in_step() const {
    const PlacedServers* servers = machine.servers.get();
    return !servers || (servers->plan.consistency == Consistency::synchronous && servers->plan.backup_workers == 0);
  }

 private:
  const Scenario& scenario_;

  /// The plan of a rank, or of a worker.
  TrainingPlan plan_of_rank(const CentralPlan&, const SimulateOptions&);
  void simulate(const CentralPlan&, const SimulateOptions&);
  void add_programs(Simulation&, const CentralPlan&, const PassTables&, const TrainingStreams&, const CentralWords*);
};

}  // namespace trainyard
