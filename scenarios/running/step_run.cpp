#include "scenarios/running/step_run.hpp"

#include "scenarios/planning/offload.hpp"
#include "scenarios/planning/size.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

/// Traces and pictures need every operation and every change of memory.
bool keeps_all(const SimulateOptions& options) { return !options.trace.empty() || options.watch; }

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
  plan.steps += planned.warm_steps;
  plan.marks_steps = planned.warm_steps > 0;
  if (machine.input) machine.input->feed(plan);
}

void StepRun::simulate(const SimulateOptions& options) {
  // Where workers are not in step there is no path that is a step's.
  const bool path = options.critical_path && in_step() && estimated_operations(scenario, planned) <= kMostOfPath;
  const bool records = keeps_all(options) || path;
  if (!records && plan.fuses_kernels) plan.first_fused = kFirstFused;
  mechanism = scenario.plan.mechanism->run({plan, machine.cluster, states_, names, planned.warm_steps});
  streams = mechanism->streams();
  machine.cluster.fuse(mechanism->tables().fused().runs());
  Programs programs = mechanism->programs();
  if (machine.input) machine.input->add_to(programs, names);
  Progress progress;
  end = run_programs(
      machine.top(), std::move(programs),
      {.observers = {&breakdown, plan.marks_steps ? &window : nullptr, &traffic, &memory, mechanism->observer(),
                     records ? &timeline : nullptr, options.progress ? &progress : nullptr},
       .link_changes = link_changes(scenario.slow, machine.top().links()),
       .transport = options.transport});
  require_begun(scenario.slow, end.end);
}

}  // namespace trainyard
