#include "scenarios/running/simulate.hpp"

#include <fmt/format.h>

#include <chrono>

#include "scenarios/pictures/step_picture.hpp"
#include "scenarios/planning/offload.hpp"
#include "scenarios/planning/size.hpp"
#include "scenarios/running/step_result.hpp"
#include "scenarios/running/step_run.hpp"
#include "sim/observers/trace.hpp"
#include "sim/process/child.hpp"
#include "sim/process/output.hpp"
#include "strategies/values/gossip_mixing.hpp"

namespace trainyard {
namespace {

void require_rank(const Scenario& s, int rank) {
  if (rank < 0 || rank >= s.ranks())
    throw UserError(fmt::format("--rank {}: the scenario has ranks 0 to {}", rank, s.ranks() - 1));
}

/// A trace of many ranks is larger than anything that opens it.
void require_traceable(const Scenario& s, const SimulateOptions& options) {
  if (options.trace.empty()) return;
  double ranks = s.ranks();
  if (options.trace_ranks) {
    const auto [first, last] = *options.trace_ranks;
    if (first < 0 || last < first || last >= s.ranks())
      throw UserError(fmt::format("--trace-ranks {}-{}: the scenario has ranks 0 to {}", first, last, s.ranks() - 1));
    ranks = last - first + 1;
  }
  const double operations = estimated_operations(s) * ranks / s.ranks();
  if (operations <= kMostOfTrace) return;
  const int most = static_cast<int>(kMostOfTrace * ranks / operations);
  throw UserError(fmt::format(
      "--trace {}: a trace of about {:.2g} million operations of {} ranks, some {:.2g} GB; at most {:.0f} million are "
      "written. {}",
      options.trace.string(), operations * 1e-6, ranks, operations * 200e-9, kMostOfTrace * 1e-6,
      most > 0 ? fmt::format("Fewer ranks do: --trace-ranks 0-{}", most - 1)
               : std::string("Fewer layers or micro-batches do")));
}

}  // namespace

Result simulate_here(const Scenario& s, const SimulateOptions& options) {
  if (options.picture_rank) require_rank(s, *options.picture_rank);
  require_simulable(s);
  require_traceable(s, options);
  const auto begin = std::chrono::steady_clock::now();
  const std::optional<Result> fed = fed_result(s, options);
  const StepRun run(s, options);
  Result r = result_of(s, run);
  if (const auto& gossip = s.plan.updates.gossip; gossip && !gossip->drawn())
    if (const double gap = spectral_gap(*gossip); gap > 0) r.replicas.spectral_gap = gap;
  if (fed) book_starvation(*fed, r);
  r.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!options.trace.empty())
    write_atomically(
        options.trace,
        chrome_trace(run.timeline, run.memory, run.machine.top(), run.names, run.streams, [&options](Actor actor) {
          return !options.trace_ranks || (options.trace_ranks->first <= actor && actor <= options.trace_ranks->second);
        }));
  if (!options.picture.empty()) {
    const Actor rank = options.picture_rank.value_or(run.breakdown.last());
    write_atomically(options.picture, draw(step_picture(s, rank, run.end.end.value, run.timeline, run.names,
                                                        run.breakdown, run.memory, run.streams)));
  }
  return r;
}

Result simulate(const Scenario& s, const SimulateOptions& options) {
  return s.said_step.time.value > 0 ? said_result(s)
                                    : result_from_text(in_child([&] { return to_text(simulate_here(s, options)); }));
}

std::vector<WhatIf> what_if(const Scenario& s, double factor, TransportKind transport) {
  std::vector<std::string> classes = resource_classes_of(s);
  for (const std::string& of_input : resource_classes(s.input.supply)) classes.push_back(of_input);
  const std::vector<std::string> texts = in_children(classes.size(), processors(), [&](std::size_t i) {
    SimulateOptions options;
    options.critical_path = false;
    options.transport = transport;
    options.upgrade[classes[i]] = factor;
    return to_text(result_of(s, StepRun(s, options)));
  });
  std::vector<WhatIf> table;
  for (std::size_t i = 0; i < classes.size(); ++i)
    table.push_back({classes[i], factor, result_from_text(texts[i]).step_time});
  return table;
}

Explanation explain(const Scenario& s) {
  require_simulable(s);
  const std::optional<Result> fed = fed_result(s, {});
  Explanation e = explanation_from_text(in_child([&s] {
    const StepRun run(s, {});
    Explanation of_run{result_of(s, run), {}};
    for (const PathStep& step : named_path(run)) {
      if (step.end <= step.begin) continue;  // of the other steps
      const OpRecord& record = run.timeline.records()[step.id - 1];
      const PathLine line{step.begin, step.end, run.machine.top().actor_name(record.actor), run.names[record.name],
                          step.resource};
      PathLine* last = of_run.path.empty() ? nullptr : &of_run.path.back();
      if (last && last->name == line.name && last->actor == line.actor && last->resource == line.resource)
        last->end = line.end;
      else
        of_run.path.push_back(line);
    }
    return to_text(of_run);
  }));
  if (fed) book_starvation(*fed, e.result);
  return e;
}

}  // namespace trainyard
