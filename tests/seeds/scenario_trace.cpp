#include "tests/seeds/scenario_trace.hpp"

#include <algorithm>

#include "scenarios/src/planning/plan.hpp"
#include "sim/executor/simulation.hpp"
#include "strategies/mechanisms/mechanism.hpp"

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

double run_step(const Scenario& s, const std::vector<Observer*>& observers, bool values) {
  Plan laid_out = plan(s);
  laid_out.training.values = values;
  Names names;
  ClusterMachine cluster(s.cluster, s.software);
  const std::vector<PlacedMachine::PlacedActor> actors = s.plan.mechanism->actors(laid_out.training, cluster);
  PlacedMachine placed(cluster, actors);
  const TrainingStates states{s.precision, s.optimizer, s.software};
  const std::unique_ptr<MechanismRun> run = s.plan.mechanism->run({laid_out.training, cluster, states, names});
  Machine& machine = actors.empty() ? static_cast<Machine&>(cluster) : placed;
  return run_programs(machine, run->programs(), {observers}).end.value;
}

}  // namespace trainyard
