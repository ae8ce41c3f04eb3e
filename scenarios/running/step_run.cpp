#include "scenarios/running/step_run.hpp"

#include <algorithm>

#include "scenarios/planning/offload.hpp"
#include "scenarios/planning/size.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

/// Traces and pictures need every operation and every change of memory.
bool keeps_all(const SimulateOptions& options) { return !options.trace.empty() || options.watch; }

/// More than any actor does before there is enough: one may do the steps of all.
int steps_of_search(const Scenario& s, const Plan& plan) {
  const std::int64_t most = SteadyState::most(*plan.search, plan.training.steps);
  if (s.plan.mechanism->in_step()) return static_cast<int>(most);
  constexpr std::int64_t countable = 1 << 30;
  return static_cast<int>(std::min(s.ranks() * (most + plan.warm_steps), countable / plan.training.micro_batches));
}

TrainingPlan plan_under(const Upgrade& upgrade, const Scenario& s, const Plan& plan) {
  if (upgrade.empty()) return plan.training;
  return replanned(plan, s, upgraded(s.cluster, upgrade), upgraded(s.software, upgrade)).training;
}

}  // namespace

StepRun::StepRun(const Scenario& s, const Plan& laid_out, const SimulateOptions& options)
    : scenario(s),
      planned(laid_out),
      machine(s, planned, options.upgrade),
      breakdown(names),
      traffic(machine.top().links()),
      memory(keeps_all(options)),
      window(breakdown, names.intern(kStepOver), planned.warm_steps, planned.training.steps),
      plan(plan_under(options.upgrade, s, planned)),
      states_{s.precision, s.optimizer, upgraded(s.software, options.upgrade)} {
  prepare();
  simulate(options);
}

/// What depends on the machine, and the steps before those that are looked at.
void StepRun::prepare() {
  attach_host_ways(plan.offload, plan.ranks(), machine.cluster, scenario.plan.offload.place);
  if (planned.search) plan.steps = steps_of_search(scenario, planned);
  plan.steps += planned.warm_steps;
  plan.marks_steps = planned.warm_steps > 0 || planned.search;
  if (machine.input) machine.input->feed(plan);
}

void StepRun::find_steps() {
  const Mechanism& chosen = *scenario.plan.mechanism;
  const auto [first, behind] = mechanism->end_steps();
  window.find(*planned.search, {.first = first,
                                .behind = behind,
                                .together = chosen.stops_together(),
                                .in_step = chosen.in_step(),
                                .over = [this] {
                                  mechanism->step_over();
                                  traffic_by_step_.push_back(traffic);
                                }});
}

Actor StepRun::last() const {
  if (!window.state()) return breakdown.last(static_cast<std::size_t>(scenario.ranks()));
  const auto late = [this](Actor rank) {
    return in_step() ? window.end(rank) : (window.end(rank) - window.begin(rank)) / window.own_steps(rank);
  };
  Actor last = 0;
  for (Actor rank = 1; rank < scenario.ranks(); ++rank)
    if (late(rank) > late(last)) last = rank;
  return last;
}

void StepRun::simulate(const SimulateOptions& options) {
  // Where workers are not in step there is no path that is a step's.
  const bool path = options.critical_path && in_step() && estimated_operations(scenario, planned) <= kMostOfPath;
  const bool records = keeps_all(options) || path;
  if (!records && plan.fuses_kernels) plan.first_fused = kFirstFused;
  mechanism = scenario.plan.mechanism->run({plan, machine.cluster, states_, names});
  if (planned.search) find_steps();
  streams = mechanism->streams();
  machine.cluster.fuse(mechanism->tables().fused().runs());
  Programs programs = mechanism->programs();
  if (machine.input) machine.input->add_to(programs, names);
  Progress progress;
  end = run_programs(machine.top(), std::move(programs),
                     {.observers = {&breakdown, plan.marks_steps ? &window : nullptr, &traffic, &memory,
                                    records ? &timeline : nullptr, options.progress ? &progress : nullptr},
                      .link_changes = link_changes(scenario.slow, machine.top().links()),
                      .transport = options.transport,
                      .enough = planned.search ? &window.enough() : nullptr});
  require_begun(scenario.slow, end.end);
  if (!planned.search) return;
  const auto up_to = [this](int steps) { return traffic_by_step_[position(steps) - 1]; };
  found_traffic_ = up_to(window.simulated());
  if (window.warm_steps() > 0) found_traffic_ = found_traffic_->since(up_to(window.warm_steps()));
  traffic_by_step_.clear();
}

}  // namespace trainyard
