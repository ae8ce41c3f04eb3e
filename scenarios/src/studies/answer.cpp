#include "scenarios/src/studies/answer.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/post_training_run.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/studies/capacity.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/failures/failure_what_ifs.hpp"
#include "scenarios/src/studies/fitting.hpp"
#include "scenarios/src/studies/loop_what_ifs.hpp"
#include "scenarios/src/studies/measured/doubt_answer.hpp"
#include "scenarios/src/studies/measured/generation_doubt.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "scenarios/src/studies/mesh_what_if.hpp"
#include "scenarios/src/studies/packet_study.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

Scenario with_split(const Scenario& s, int nodes) {
  return read_again(s, {{"post_training.generation.nodes", fmt::format("{}", nodes)}});
}

/// Returns the numbers of nodes that may generate. If these are too many to simulate all of them, it leaves out those
/// that do not suit the plan or the engines.
std::vector<int> split_candidates(const Scenario& s) {
  const int most = s.post_training->machine_nodes - s.post_training->critic_nodes() - 1;
  const int node_gpus = s.post_training->generators.node.gpus, replica = s.ranks() / s.plan.mesh.data;
  const bool fills_nodes = s.plan.mesh.widths.empty() && !s.document.find("plan")->find("idle_devices");
  std::vector<int> candidates;
  ProgressLine progress;
  for (int nodes = 1; nodes <= most; ++nodes) {
    progress.show(fmt::format("split {} of {} of the nodes", nodes, most));
    // Without devices that are idle, whole replicas of the policy fill the nodes that train.
    if (most > kMostSplits && fills_nodes && (most + 1 - nodes) * node_gpus % replica != 0) continue;
    try {
      if (most > kMostSplits) with_split(s, nodes);
      candidates.push_back(nodes);
    } catch (const UserError&) {
    }
  }
  return candidates;
}

PostTrainingSplit simulated_split(const Scenario& s, int nodes, const PostTrainingResult* own_loop) {
  const PostTrainingChoice& choice = *s.post_training;
  const int gpus = choice.generators.node.gpus;
  PostTrainingSplit split{.nodes = nodes,
                          .generation_gpus = nodes * gpus,
                          .training_gpus = (choice.machine_nodes - choice.critic_nodes() - nodes) * gpus};
  if (choice.shares_gpus()) split.generation_gpus += split.training_gpus;
  try {
    PostTrainingResult r;
    if (own_loop && nodes == choice.nodes) {
      r = *own_loop;
    } else {
      const Result other = simulate_here(with_split(s, nodes), {.critical_path = false});
      if (!other.fits) split.error = too_large_words(other);
      r = *other.post_training;
    }
    split.step_time = r.step_time;
    split.generation = r.generation;
    split.training_half = r.training_half();
    split.tokens_per_s_per_gpu = r.tokens_per_s_per_gpu;
  } catch (const UserError& e) {
    split.error = e.what();
  }
  return split;
}

/// Returns the critical path of a run. Neighbours with the same name, actor and resource are joined.
std::vector<PathLine> path_lines(const StepRun& run) {
  std::vector<PathLine> path;
  for (const PathStep& step : named_path(run)) {
    if (step.end <= step.begin) continue;  // this piece is in another step
    const OpRecord& record = run.timeline.records()[step.id - 1];
    const PathLine line{Seconds{step.begin}, Seconds{step.end}, run.simulated_machine().actor_name(record.actor),
                        run.names[record.name], step.resource};
    PathLine* last = path.empty() ? nullptr : &path.back();
    if (last && last->name == line.name && last->actor == line.actor && last->resource == line.resource)
      last->end = line.end;
    else
      path.push_back(line);
  }
  return path;
}

/// Returns options with which a run writes its critical path into `path`.
SimulateOptions with_path(SimulateOptions options, std::optional<std::vector<PathLine>>& path) {
  options.path_pieces = true;
  options.after = [&path, after = std::move(options.after)](const StepRun& run) {
    if (after) after(run);
    path = path_lines(run);
  };
  return options;
}

}  // namespace

std::vector<PostTrainingSplit> post_training_splits(const Scenario& s, const PostTrainingResult* own_loop) {
  if (!s.post_training || !s.post_training->has_own_nodes() || s.post_training->machine_nodes < 3) return {};
  const std::vector<int> candidates = split_candidates(s);
  const int candidate_count = static_cast<int>(candidates.size()), count = std::min(candidate_count, kMostSplits);
  std::set<int> numbers{s.post_training->nodes};
  for (int i = 1; i <= count; ++i)
    numbers.insert(candidates[static_cast<std::size_t>(
        std::clamp(i * (candidate_count + 1) / (count + 1), 1, candidate_count) - 1)]);
  const std::vector<int> all(numbers.begin(), numbers.end());
  ProgressLine progress;
  std::size_t ended = 0;
  progress.show(fmt::format("0 of {} splits of the nodes", all.size()));
  std::vector<PostTrainingSplit> splits = all_in_parallel(
      all.size(), processors(), [&](std::size_t i) { return simulated_split(s, all[i], own_loop); },
      [&](std::size_t, const PostTrainingSplit&) {
        progress.show(fmt::format("{} of {} splits of the nodes", ++ended, all.size()));
      });
  sort_stably(splits, [](const PostTrainingSplit& a, const PostTrainingSplit& b) {
    return a.error.empty() != b.error.empty() ? a.error.empty() : a.step_time < b.step_time;
  });
  return splits;
}

double simulated_operations(const Plan& plan, const Result& r) {
  return estimated_operations(plan) * r.simulated_ranks / r.ranks;
}

namespace {

using Simulate = std::function<Result(const SimulateOptions&)>;

bool simulates_packets(const Scenario& s, const AnswerOptions& options) {
  return options.simulation.transport.value_or(s.transport) == TransportKind::packets;
}

/// Returns the step with all ranges of announced hardware at one end. `end`: 0 is that of the slowest hardware, 1 of the
/// fastest.
Seconds step_at_end(const Scenario& s, std::size_t end, const SimulateOptions& simulation) {
  std::vector<FigureTrial> trials;
  for (const FigureSource& figure : s.sources) {
    if (figure.range.empty()) continue;
    const std::size_t space = figure.figure.find(' '), colon = figure.figure.find(": ");  // "gpu rubin: clock"
    trials.push_back({figure.figure.substr(0, space), figure.figure.substr(space + 1, colon - space - 1),
                      figure.figure.substr(colon + 2), figure.range[end]});
  }
  const FigureTrials at_end(std::move(trials));
  return simulate_training(read_again(s, {}), simulation).step_time;
}

/// Adds the step times at both ends of the ranges of announced hardware, and widens the interval of the step by them.
void add_announced_range(Result& r, const Scenario& s, const SimulateOptions& simulation) {
  r.announced_step_times = announced_step_times(s, r.step_time, simulation);
  if (r.announced_step_times) r.likely_step_times = likely_step_times(r.step_time.value, step_doubt(s, r));
}

/// Adds what needs simulations besides that of the step.
void add_further_simulations(Answer& a, const Scenario& s, const Plan& plan, const AnswerOptions& options,
                             const Simulate& simulate_with) {
  const SimulateOptions& simulation = options.simulation;
  const bool by_packets = simulates_packets(s, options);
  Result& r = a.result;
  const bool is_small = simulated_operations(plan, r) <= kMostKept;
  // The pieces of the path come from a run of their own: it keeps kernels apart, and its sums have other roundings.
  if (options.reasons) {
    a.path.emplace();
    if (is_small || r.post_training || r.generation) simulate_with(with_path(simulation, a.path));
  }
  const bool prescribed = !r.step_time_source.empty();
  if (!prescribed && !by_packets && !r.post_training && !r.generation) add_announced_range(r, s, simulation);
  const bool simulates_again = !prescribed && (options.reasons || is_small);
  if (simulates_again && (options.reasons || (options.changes && !r.plan_fits()))) r.capacity = capacity(s);
  if (options.changes && !r.plan_fits() && r.host_memory.holds_weights()) r.changes = fitting_changes(s);
  if (simulates_again && options.factor > 0 && !by_packets)
    a.what_ifs = r.post_training ? loop_what_ifs(s, *r.post_training, options.factor, simulation, options.reasons,
                                                 r.refused_what_ifs)
                 : r.generation ? engine_what_ifs(s, *r.generation, options.factor, options.reasons, r.refused_what_ifs)
                                : what_if(s, options.factor, simulation, &r.refused_what_ifs);
  if (simulates_again && options.factor > 0 && !by_packets && !r.post_training && !r.generation)
    if (const std::optional<WhatIf> other_order = mesh_what_if(s, simulation, r.refused_what_ifs))
      a.what_ifs.push_back(*other_order);
  if (r.post_training) r.post_training->bottleneck = loop_bottleneck(a.what_ifs, r.post_training->step_time);
  const bool is_plain = !simulation.transport && simulation.folding == SimulateOptions{}.folding;
  if (options.factor > 0) r.splits = post_training_splits(s, is_plain && r.post_training ? &*r.post_training : nullptr);
  if (options.reasons && r.failures && !r.post_training) {
    add_goodput(a.what_ifs, s, *r.failures);
    a.failure_what_ifs = failure_what_ifs(s, r.step_time, *r.failures, options.factor);
  }
}

}  // namespace

bool has_announced_ranges(const Scenario& s) {
  return std::ranges::any_of(s.sources, [](const FigureSource& figure) { return !figure.range.empty(); });
}

std::optional<std::array<double, 2>> announced_step_times(const Scenario& s, Seconds step, SimulateOptions simulation) {
  if (!has_announced_ranges(s)) return std::nullopt;
  simulation.critical_path = false;
  return std::array{std::min(step, step_at_end(s, 1, simulation)).value,
                    std::max(step, step_at_end(s, 0, simulation)).value};
}

Answer answer(const Scenario& s, const Plan& plan, const AnswerOptions& options) {
  Answer a;
  a.sources = s.sources;
  const Simulate simulate_with = [&](const SimulateOptions& o) {
    return simulates_packets(s, options) ? simulate_by_packets(s, plan, o) : simulate_training(s, plan, o);
  };
  a.result = simulate_with(options.simulation);
  Result& r = a.result;
  const StepDoubt doubt = step_doubt(s, r);
  r.likely_step_times = likely_step_times(r.step_time.value, doubt);
  if (r.likely_step_times) r.expected_error = DoubtModel::shipped().expected_error(doubt);
  r.extrapolated = extrapolated_collectives(s);
  if (r.post_training && s.post_training->algorithm.has_rollouts) add_loop_interval(s, *r.post_training);
  if (r.generation) add_generation_intervals(s, *r.generation);
  try {
    add_further_simulations(a, s, plan, options, simulate_with);
  } catch (const Interruption&) {
    if (!options.unfinished) throw;
    *options.unfinished = "interrupted before all changes were simulated; this is the step itself";
  }
  return a;
}

Answer answer(const Scenario& s, const AnswerOptions& options) { return answer(s, plan(s), options); }

}  // namespace trainyard
