#pragma once
#include <memory>
#include <vector>

#include "scenarios/planning/server_plans.hpp"
#include "scenarios/running/input_run.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard {

/// The machine of a scenario's step: its cluster, and what stands before it where the scenario has it.
class StepMachine {
 public:
  /// Throws UserError for servers or drives without a place.
  StepMachine(const Scenario&, const Upgrade&);
  StepMachine(const StepMachine&) = delete;
  StepMachine& operator=(const StepMachine&) = delete;

  ClusterMachine cluster;
  std::unique_ptr<PlacedServers> servers;  ///< parameter servers
  std::unique_ptr<InputRun> input;         ///< drives, loaders

  Machine& top() { return *top_; }
  const Machine& top() const { return *top_; }
  /// On a CPU; of parameter servers, those that no GPU holds.
  bool on_host(Actor actor) const { return (placed_ ? placed_->place(actor) : actor) >= cluster.spec().gpus(); }

  /// Parameter servers that stand on a worker's GPU.
  std::vector<Actor> servers_on(Actor worker) const;

 private:
  std::unique_ptr<PlacedMachine> placed_;
  std::unique_ptr<StragglerMachine> stragglers_;  // asked for each operation: not where nobody straggles
  Machine* top_ = &cluster;
};

}  // namespace trainyard
