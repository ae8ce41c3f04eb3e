#include "scenarios/src/running/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/packet_cost.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/post_training_run.hpp"
#include "scenarios/src/running/step_result.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "sim/observers/progress.hpp"
#include "sim/observers/trace.hpp"
#include "sim/process/output.hpp"
#include "sim/process/parallel.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

/// Throws UserError for a trace of ranks that do not exist, or that is too large for the programs that show traces.
void require_traceable(const Scenario& s, const Plan& plan, const SimulateOptions& options) {
  if (options.trace.empty()) return;
  double ranks = s.ranks();
  if (options.trace_ranks) {
    const auto [first, last] = *options.trace_ranks;
    if (first < 0 || last < first || last >= s.ranks())
      throw UserError(fmt::format("--trace-ranks {}-{}: the scenario has ranks 0 to {}", first, last, s.ranks() - 1));
    ranks = last - first + 1;
  }
  const double operations = estimated_operations(plan) * ranks / s.ranks();
  if (operations <= kMostOfTrace) return;
  const int most = static_cast<int>(kMostOfTrace * ranks / operations);
  throw UserError(
      fmt::format("--trace {}: a trace of about {:.2g} million operations of {} ranks, some {:.2g} GB; at most {:.0f} "
                  "million are written. {}",
                  options.trace.string(), operations * 1e-6, ranks, operations * 200e-9, kMostOfTrace * 1e-6,
                  most > 0 ? fmt::format("Expected fewer ranks: --trace-ranks 0-{}", most - 1)
                           : std::string("Expected fewer layers or micro-batches")));
}

/// Returns options for the step time alone, with transport, folding and step time of `base`.
SimulateOptions times_only(const SimulateOptions& base) {
  return {.critical_path = false,
          .kernels_as_with_path = base.critical_path || base.kernels_as_with_path,
          .transport = base.transport,
          .folding = base.folding};
}

/// Returns what the pools of a loop do in a step, as rows of a trace.
std::vector<TraceSpan> pool_spans(const PostTrainingResult& loop) {
  std::vector<TraceSpan> spans;
  for (const PostTrainingResult::Pool& pool : loop.pools)
    for (const PostTrainingResult::Pool::Part& part : pool.parts)
      spans.push_back(
          {fmt::format("a step of the loop: {} GPUs, {}", pool.gpus, pool.name), part.name, part.begin, part.end});
  return spans;
}

/// The answer is the one without trace and picture. `trace`: takes the trace if one is to be written.
Result watched_result(const Scenario& s, const Plan& plan, const SimulateOptions& request, std::string& trace) {
  PathWatch path;
  SimulateOptions options = request;
  if (options.critical_path) path.watch(options);
  const StepRun run(s, plan, options);
  if (!options.trace.empty())
    trace = chrome_trace(run.timeline, run.memory, run.simulated_machine(), run.names, run.streams, [&](Actor actor) {
      return !options.trace_ranks || run.stands_for(actor, options.trace_ranks->first, options.trace_ranks->second);
    });
  if (options.watch) options.watch(run);
  if (run.is_changed_by_watching()) {
    SimulateOptions unwatched = request;
    unwatched.trace.clear();
    unwatched.watch = nullptr;
    std::string no_trace;
    return watched_result(s, plan, unwatched, no_trace);
  }
  Result r = result_of(run);
  book_critical_path(run, path.by_resource(), r);
  if (options.after) options.after(run);
  return r;
}

}  // namespace

Result simulate_here(const Scenario& s, const Plan& plan, const SimulateOptions& options) {
  require_simulable(s, plan);
  require_traceable(s, plan, options);
  // The size is checked before programs and machine are built.
  if (const std::string reason = reason_not_to_fold(s, plan, options); !reason.empty())
    require_size(s, plan, 1, reason);
  if (options.transport.value_or(s.transport) == TransportKind::packets) require_packets(s);
  const auto begin = std::chrono::steady_clock::now();
  const std::optional<Result> fed = simulate_without_input_wait(s, plan, options);
  std::string trace;
  Result r = watched_result(s, plan, options, trace);
  MechanismFigures figures = r.of_mechanism();
  s.plan.mechanism->add_slow_figures(figures);
  r.replicas = figures.replicas;
  if (fed) book_input_wait(*fed, r);
  if (s.post_training)
    r.post_training = post_training_result(
        s, r, [](const Scenario& other) { return simulate_here(other, {.critical_path = false}); });
  if (r.post_training) r.fits = r.fits && r.post_training->phases_fit();
  if (s.generation) r.generation = generation_result(*s.generation, s.model.entry);
  if (!options.trace.empty())
    write_atomically(options.trace,
                     r.post_training ? with_spans(std::move(trace), pool_spans(*r.post_training)) : trace);
  r.wall_s.value = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return r;
}

Result simulate_here(const Scenario& s, const SimulateOptions& options) { return simulate_here(s, plan(s), options); }

Result simulate(const Scenario& s, const Plan& plan, const SimulateOptions& options) {
  if (s.prescribed_step.exists()) return prescribed_result(s);
  try {
    return simulate_here(s, plan, options);
  } catch (const Deadlock&) {
    if (options.folding == Folding::off) throw;
    SimulateOptions unfolded = options;  // the report names the cycle of real ranks
    unfolded.folding = Folding::off;
    return simulate_here(s, plan, unfolded);
  }
}

Result simulate(const Scenario& s, const SimulateOptions& options) {
  if (s.prescribed_step.exists()) return prescribed_result(s);
  return simulate(s, plan(s), options);
}

std::vector<WhatIf> what_if(const Scenario& s, double factor, const SimulateOptions& base,
                            std::vector<RefusedWhatIf>* refused) {
  const std::vector<std::string> classes = resource_classes(s);
  // A few steps of workers that are not in step say little about the steady rate. So both runs take the default number
  // of steps.
  const bool steady = s.plan.steps && !s.plan.mechanism->is_synchronous();
  const auto changes = [&](std::size_t i) {
    Overrides sets = i < classes.size() ? faster(s, classes[i], factor) : Overrides{};
    if (steady) sets.emplace_back("plan.steps", "null");
    return sets;
  };
  const std::size_t runs = classes.size() + (steady ? 1 : 0);  // the last one has no change
  ProgressLine progress;
  std::size_t ended = 0;
  progress.show(fmt::format("0 of {} what-ifs", runs));
  // A factor may make a field larger than it may be, such as the number of readers of a node.
  std::vector<std::string> errors(classes.size());
  const auto changed_scenario = [&](std::size_t i) -> std::optional<Scenario> {
    try {
      return read_again(s, changes(i));
    } catch (const UserError& e) {
      if (i >= classes.size()) throw;
      errors[i] = e.what();
      return std::nullopt;
    }
  };
  const auto faster_run = [&](std::size_t i) -> std::optional<double> {
    const std::optional<Scenario> changed = changed_scenario(i);
    if (!changed) return std::nullopt;
    return result_of(StepRun(*changed, plan(*changed), times_only(base))).step_time.value;
  };
  const std::vector<std::optional<double>> step_times =
      all_in_parallel(runs, processors(), faster_run, [&](std::size_t, const std::optional<double>&) {
        progress.show(fmt::format("{} of {} what-ifs", ++ended, runs));
      });
  std::vector<WhatIf> table;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (!step_times[i]) {
      if (refused) refused->push_back({classes[i], factor, errors[i]});
      continue;
    }
    WhatIf& row = table.emplace_back();
    row.resource_class = classes[i];
    row.factor = factor;
    row.step_time.value = *step_times[i];
    if (steady) row.compared_with.value = *step_times.back();
    row.sets = as_sets(changes(i));
  }
  return table;
}

}  // namespace trainyard
