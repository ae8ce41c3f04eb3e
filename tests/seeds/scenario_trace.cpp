#include "tests/seeds/scenario_trace.hpp"

#include <algorithm>

#include "scenarios/planning/central_plans.hpp"
#include "scenarios/planning/server_plans.hpp"
#include "scenarios/planning/training_plans.hpp"
#include "sim/executor/simulation.hpp"
#include "strategies/step/training_program.hpp"

namespace trainyard {

void MessageTrace::transferred(const TransferRun& run) {
  if (!(run.bytes.value > 0) || !run.last_leg) return;
  all_.push_back({run.started.value, {run.from, run.to, run.bytes.value}});
  first_message_ = std::min(first_message_, run.started.value);
}

void MessageTrace::finished(const OpRun& run) {
  if (run.op->kind == Kind::compute) last_kernel_ = std::max(last_kernel_, run.ended.value);
}

MessageTrace::Messages MessageTrace::messages() const {
  auto sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    const auto pair = [](const auto& m) { return std::make_pair(std::get<0>(m.second), std::get<1>(m.second)); };
    return pair(a) != pair(b) ? pair(a) < pair(b) : a.first < b.first;
  });
  Messages messages;
  for (const auto& [started, message] : sorted) messages.push_back(message);
  return messages;
}

namespace {

double run_servers(const Scenario& s, const std::vector<Observer*>& observers, bool values) {
  Names names;
  ClusterMachine cluster(s.cluster, s.software);
  PlacedServers servers = placed_servers(s, cluster, s.software);
  ServerPlan& plan = servers.plan;
  plan.base.step.values = values;
  PlacedMachine machine(cluster, servers.actors);
  const PassTables tables(plan.base.step, names);
  const CentralWords words(names);
  ServerBoard board(plan.workers(), plan.workers() - plan.backup_workers, plan.base.step.steps, plan.keys());
  Simulation simulation(machine);
  for (Observer* observer : observers) simulation.observe(*observer);
  for (Actor actor = 0; actor < plan.actors(); ++actor)
    simulation.add(actor, server_program(actor, plan, tables, words, board));
  return simulation.run().end.value;
}

}  // namespace

double run_step(const Scenario& s, const std::vector<Observer*>& observers, bool values) {
  if (s.parallel.mechanism == Mechanism::parameter_server) return run_servers(s, observers, values);
  Names names;
  ClusterMachine machine(s.cluster, s.software);
  CentralPlan central = central_plan(s, machine, s.software);
  central.step.values = values;
  TrainingPlan plan = central.used() ? central.step : prepared_plan(s);
  plan.values = values;
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  const CentralWords words(names);
  Simulation simulation(machine);
  for (Observer* observer : observers) simulation.observe(*observer);
  if (central.used())
    for (const Actor actor : central.actors()) simulation.add(actor, central_program(actor, central, tables, words));
  else
    for (int rank = 0; rank < plan.ranks(); ++rank) simulation.add(rank, training_program(rank, plan, tables, streams));
  return simulation.run().end.value;
}

}  // namespace trainyard
