#include "scenarios/src/planning/layer_division.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "scenarios/src/planning/balanced_cut.hpp"
#include "scenarios/src/planning/layer_times.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

int layers_to_divide(const Network& network, const PlanChoice& choice) {
  const int count = static_cast<int>(network.layers.size());
  const bool ends = count > 2 && network.layers.front().name == "embedding" && network.layers.back().name == "head";
  return ends && !choice.ends_count_as_layers ? count - 2 : count;
}

namespace {

/// Divides layers evenly. A remainder goes to the middle first, because the ends also have the embedding and the head.
std::vector<std::int64_t> even_counts(int layers, int parts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(parts), layers / parts);
  int rest = layers % parts;
  for (int i = 1; i + 1 < parts && rest > 0; ++i, --rest) ++counts[static_cast<std::size_t>(i)];
  if (rest > 0) ++counts.front();
  return counts;
}

/// Returns, for each stage and layer, the time of one micro-batch on the slowest type of node that has ranks with the
/// stage's layers; ps.
std::vector<std::vector<std::int64_t>> times_by_stage(const TrainingPlan& plan, const Scenario& s) {
  std::vector<std::set<const NodeType*>> types(static_cast<std::size_t>(plan.mesh.pipeline));
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const int stage = plan.mesh.coordinates(rank).pipeline;
    for (const int holder : {stage, plan.mesh.opposite_stage(stage)})
      types[static_cast<std::size_t>(holder)].insert(&s.cluster.type_of_gpu(rank));
  }
  const double sums = 1 - 1.0 / plan.micro_batches;  // share of micro-batches that accumulate: all but the first
  std::map<const NodeType*, std::vector<std::int64_t>> times_by_type;
  std::vector<std::vector<std::int64_t>> times;
  for (const auto& stage_types : types) {
    std::vector<std::int64_t>& longest = times.emplace_back(plan.network->layers.size(), 0);
    for (const NodeType* type : stage_types) {
      std::vector<std::int64_t>& type_times = times_by_type[type];
      if (type_times.empty())
        for (const Layer& layer : plan.network->layers)
          type_times.push_back(
              std::llround(std::max(launch_time(layer, *type, s.software),
                                    layer_time(layer, *type, s.software) +
                                        accumulation_time(layer, plan.accumulation, *type, s.software) * sums)
                               .value *
                           1e12));
      std::transform(longest.begin(), longest.end(), type_times.begin(), longest.begin(),
                     [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    }
  }
  return times;
}

std::vector<std::int64_t> balanced_counts(const TrainingPlan& plan, const Scenario& s) {
  const std::vector<std::vector<std::int64_t>> by_stage = times_by_stage(plan, s);
  std::vector<std::vector<std::int64_t>> times;
  std::vector<int> stage_of;
  for (int part = 0; part < plan.parts(); ++part) {
    const int stage = plan.schedule->place_of(part, plan.pipeline).stage;
    stage_of.push_back(std::min(stage, plan.mesh.opposite_stage(stage)));
    times.push_back(by_stage[static_cast<std::size_t>(stage_of.back())]);
  }
  const std::vector<int> cut = balanced_cut(times, stage_of);
  return {cut.begin(), cut.end()};
}

/// Returns the layers of each part of the network. `counts`: number of layers of each; empty: evenly many.
std::vector<std::vector<int>> divide_by_counts(const Network& network, const PlanChoice& choice,
                                               std::vector<std::int64_t> counts) {
  const int parts = choice.parts(), body = layers_to_divide(network, choice);
  const bool apart = body != static_cast<int>(network.layers.size());
  if (parts > body)
    fail(choice.place, fmt::format("plan.pipeline_parallel: {}, but {} has {} layers{}", choice.parts_in_words(),
                                   network.name, body, apart ? " between embedding and head" : ""));
  const char* key = choice.mesh.widths.empty() ? "plan.pipeline.layers" : "plan.pipeline.stages";
  if (counts.empty()) counts = even_counts(body, parts);
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != body)
    fail(choice.layers_place, fmt::format("{}: {} in all, but {} has {}{}", key,
                                          std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), network.name,
                                          body, apart ? " between embedding and head" : ""));
  std::vector<std::vector<int>> stages(static_cast<std::size_t>(parts));
  int next = 0;
  for (int part = 0; part < parts; ++part) {
    std::vector<int>& stage = stages[part];
    const auto end =
        static_cast<int>(next + counts[part] + (apart && part == 0 ? 1 : 0) + (apart && part + 1 == parts ? 1 : 0));
    for (; next < end; ++next) stage.push_back(next);
    if (stage.empty()) fail(choice.layers_place, fmt::format("{}: stage {} has no layer", key, part));
  }
  return stages;
}

}  // namespace

std::vector<std::vector<int>> divide_layers(const TrainingPlan& plan, const Scenario& s) {
  // With too few layers, `divide_by_counts` throws the error.
  const bool balances =
      s.plan.layers.empty() && s.plan.balanced && layers_to_divide(*plan.network, s.plan) >= plan.parts();
  return divide_by_counts(*plan.network, s.plan, balances ? balanced_counts(plan, s) : s.plan.layers);
}

std::vector<std::vector<int>> divide_layers(const Network& network, const PlanChoice& choice) {
  return divide_by_counts(network, choice, choice.layers);
}

}  // namespace trainyard
