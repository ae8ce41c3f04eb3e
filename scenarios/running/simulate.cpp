#include "scenarios/running/simulate.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "scenarios/pictures/step_picture.hpp"
#include "scenarios/planning/offload.hpp"
#include "scenarios/planning/size.hpp"
#include "scenarios/running/step_result.hpp"
#include "scenarios/running/step_run.hpp"
#include "scenarios/studies/failure_study.hpp"
#include "sim/observers/trace.hpp"
#include "sim/process/child.hpp"
#include "sim/process/output.hpp"
#include "strategies/values/gossip_mixing.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

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
    r.replicas.spectral_gap = spectral_gap(*gossip);
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
  Result r = s.said_step.time.value > 0
                 ? said_result(s)
                 : result_from_json(json::parse(in_child([&] { return to_json(simulate_here(s, options)).dump(); })));
  if (s.failures.given()) r.failures = study_failures(s, Seconds{r.step_time});
  return r;
}

std::vector<WhatIf> what_if(const Scenario& s, double factor, TransportKind transport) {
  std::vector<std::string> classes = resource_classes_of(s);
  for (const std::string& of_input : resource_classes(s.input.supply)) classes.push_back(of_input);
  const std::vector<std::string> texts = in_children(classes.size(), processors(), [&](std::size_t i) {
    SimulateOptions options;
    options.critical_path = false;
    options.transport = transport;
    options.upgrade[classes[i]] = factor;
    return to_json(result_of(s, StepRun(s, options))).dump();
  });
  std::vector<WhatIf> table;
  for (std::size_t i = 0; i < classes.size(); ++i)
    table.push_back({classes[i], factor, json::parse(texts[i]).at("step_time_s").get<double>()});
  return table;
}

Explanation explain(const Scenario& s) {
  require_simulable(s);
  const std::optional<Result> fed = fed_result(s, {});
  const std::string text = in_child([&s] {
    const StepRun run(s, {});
    json lines = json::array();
    for (const PathStep& step : named_path(run)) {
      if (step.end <= step.begin) continue;  // of steps that are not looked at
      const OpRecord& record = run.timeline.records()[step.id - 1];
      const std::string actor = run.machine.top().actor_name(record.actor);
      const std::string& name = run.names[record.name];
      if (!lines.empty() && lines.back()[3] == name && lines.back()[2] == actor && lines.back()[4] == step.resource)
        lines.back()[1] = step.end;
      else
        lines.push_back({step.begin, step.end, actor, name, step.resource});
    }
    return json{{"result", to_json(result_of(s, run))}, {"path", lines}}.dump();
  });
  const json j = json::parse(text);
  Explanation e{result_from_json(j.at("result")), {}};
  if (fed) book_starvation(*fed, e.result);
  for (const json& line : j.at("path")) e.path.push_back({line[0], line[1], line[2], line[3], line[4]});
  return e;
}

}  // namespace trainyard
