#include "scenarios/running/step_run.hpp"

#include <algorithm>

#include "scenarios/planning/central_plans.hpp"
#include "scenarios/planning/offload.hpp"
#include "scenarios/planning/size.hpp"
#include "scenarios/planning/training_plans.hpp"
#include "scenarios/reading/slow_parts.hpp"
#include "sim/executor/simulation.hpp"

namespace trainyard {
namespace {

/// Traces and pictures need every operation and every change of memory.
bool keeps_all(const SimulateOptions& options) { return !options.trace.empty() || !options.picture.empty(); }

}  // namespace

StepRun::StepRun(const Scenario& s, const SimulateOptions& options)
    : machine(s, options.upgrade),
      breakdown(names),
      traffic(machine.top().links()),
      memory(keeps_all(options)),
      window(breakdown, names.intern(kStepOver), s.warm_steps, s.plan.steps),
      scenario_(s) {
  const CentralPlan in_center = central_plan(s, machine.cluster, upgraded(s.software, options.upgrade));
  central = in_center.used() || machine.servers;
  plan = plan_of_rank(in_center, options);
  simulate(in_center, options);
}

TrainingPlan StepRun::plan_of_rank(const CentralPlan& in_center, const SimulateOptions& options) {
  const Scenario& s = scenario_;
  TrainingPlan p = machine.servers ? machine.servers->plan.base.step
                   : in_center.used()
                       ? in_center.step
                       : prepared_plan(s, upgraded(s.cluster, options.upgrade), upgraded(s.software, options.upgrade));
  attach_host_ways(p.offload, p.ranks(), machine.cluster, s.parallel.offload.place);
  p.steps += s.warm_steps;
  p.marks_steps = s.warm_steps > 0;
  if (machine.servers) {  // their programs are made of their own plan
    machine.servers->plan.base.step.steps = p.steps;
    machine.servers->plan.base.step.marks_steps = p.marks_steps;
  }
  if (machine.input) machine.input->feed(p);
  return p;
}

void StepRun::simulate(const CentralPlan& in_center, const SimulateOptions& options) {
  const Scenario& s = scenario_;
  // Where workers are not in step there is no path that is a step's.
  const bool path = options.critical_path && in_step() && estimated_operations(s) <= kMostOfPath;
  const bool records = keeps_all(options) || path;
  if (!records && s.parallel.any()) plan.first_fused = kFirstFused;
  const PassTables tables(plan, names);
  machine.cluster.fuse(tables.fused().runs());
  const TrainingStreams used(plan);
  const std::unique_ptr<CentralWords> words = central ? std::make_unique<CentralWords>(names) : nullptr;
  Simulation simulation(machine.top(), options.transport);
  add_programs(simulation, in_center, tables, used, words.get());
  for (const LinkChange& change : link_changes(s.slow, machine.top().links())) simulation.change(change);
  simulation.observe(breakdown);
  if (plan.marks_steps) simulation.observe(window);
  simulation.observe(traffic);
  simulation.observe(memory);
  if (records) simulation.observe(timeline);
  Progress progress;
  if (options.progress) simulation.observe(progress);
  end = simulation.run();
  require_begun(s.slow, end.end);
  traffic.check(end.end);
}

void StepRun::add_programs(Simulation& simulation, const CentralPlan& in_center, const PassTables& tables,
                           const TrainingStreams& used, const CentralWords* words) {
  if (machine.servers) {
    const ServerPlan& all = machine.servers->plan;
    streams = server_streams(all);
    // When the slowest has done its warm steps, others may have done more, up to the bound.
    board = std::make_unique<ServerBoard>(all.workers(), all.workers() - all.backup_workers, plan.steps, all.keys(),
                                          std::max(1, scenario_.warm_steps - all.staleness));
    for (Actor actor = 0; actor < all.actors(); ++actor)
      simulation.add(actor, server_program(actor, all, tables, *words, *board));
  } else if (central) {
    streams = central_streams(in_center);
    for (const Actor actor : in_center.actors())
      simulation.add(actor, central_program(actor, in_center, tables, *words));
  } else {
    streams = used.names();
    for (int rank = 0; rank < plan.ranks(); ++rank) simulation.add(rank, training_program(rank, plan, tables, used));
  }
  if (machine.input) machine.input->add_programs(simulation, plan.ranks(), names);
}

}  // namespace trainyard
