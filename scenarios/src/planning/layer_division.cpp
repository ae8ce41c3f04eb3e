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

/// What is left over goes to the middle first: the ends have the embedding and the head besides.
std::vector<std::int64_t> evenly_many(int layers, int parts) {
  std::vector<std::int64_t> each(static_cast<std::size_t>(parts), layers / parts);
  int left = layers % parts;
  for (int i = 1; i + 1 < parts && left > 0; ++i, --left) ++each[static_cast<std::size_t>(i)];
  if (left > 0) ++each.front();
  return each;
}

/// A layer's part of a step of one micro-batch on each type of node that has ranks of a stage, the longest; ps.
std::vector<std::vector<std::int64_t>> times_by_stage(const TrainingPlan& plan, const Scenario& s) {
  std::vector<std::set<const NodeType*>> types(static_cast<std::size_t>(plan.mesh.pipeline));
  for (int rank = 0; rank < plan.ranks(); ++rank)
    types[static_cast<std::size_t>(plan.mesh.of(rank).pipeline)].insert(&s.cluster.type_of_gpu(rank));
  const double sums = 1 - 1.0 / plan.micro_batches;  // of all micro-batches but the first
  std::map<const NodeType*, std::vector<std::int64_t>> known;
  std::vector<std::vector<std::int64_t>> times;
  for (const auto& of_stage : types) {
    std::vector<std::int64_t>& longest = times.emplace_back(plan.network->layers.size(), 0);
    for (const NodeType* type : of_stage) {
      std::vector<std::int64_t>& of_type = known[type];
      if (of_type.empty())
        for (const Layer& layer : plan.network->layers)
          of_type.push_back(std::llround((layer_time(layer, *type, s.software) +
                                          accumulation_time(layer, plan.accumulation, *type, s.software) * sums)
                                             .value *
                                         1e12));
      std::transform(longest.begin(), longest.end(), of_type.begin(), longest.begin(),
                     [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    }
  }
  return times;
}

std::vector<std::int64_t> balanced(const TrainingPlan& plan, const Scenario& s) {
  const std::vector<std::vector<std::int64_t>> by_stage = times_by_stage(plan, s);
  std::vector<std::vector<std::int64_t>> times;
  std::vector<int> stage_of;
  for (int part = 0; part < plan.virtual_stages(); ++part) {
    stage_of.push_back(plan.schedule->place_of(part, plan.pipeline).stage);
    times.push_back(by_stage[static_cast<std::size_t>(stage_of.back())]);
  }
  const std::vector<int> cut = balanced_cut(times, stage_of);
  return {cut.begin(), cut.end()};
}

/// So many for each virtual stage; none: evenly many.
std::vector<std::vector<int>> divided(const Network& network, const PlanChoice& choice,
                                      std::vector<std::int64_t> each) {
  const int parts = choice.mesh.pipeline * choice.chunks, body = layers_to_divide(network, choice);
  const bool apart = body != static_cast<int>(network.layers.size());
  if (parts > body)
    fail(choice.place,
         fmt::format("plan.pipeline_parallel: {} stages x {} chunks, but {} has {} layers{}", choice.mesh.pipeline,
                     choice.chunks, network.name, body, apart ? " between embedding and head" : ""));
  const char* key = choice.mesh.widths.empty() ? "plan.pipeline.layers" : "plan.pipeline.stages";
  if (each.empty()) each = evenly_many(body, parts);
  if (std::accumulate(each.begin(), each.end(), std::int64_t{0}) != body)
    fail(choice.layers_place,
         fmt::format("{}: {} in all, but {} has {}{}", key, std::accumulate(each.begin(), each.end(), std::int64_t{0}),
                     network.name, body, apart ? " between embedding and head" : ""));
  std::vector<std::vector<int>> stages(static_cast<std::size_t>(parts));
  int next = 0;
  for (int part = 0; part < parts; ++part) {
    std::vector<int>& stage = stages[part];
    const auto end =
        static_cast<int>(next + each[part] + (apart && part == 0 ? 1 : 0) + (apart && part + 1 == parts ? 1 : 0));
    for (; next < end; ++next) stage.push_back(next);
    if (stage.empty()) fail(choice.layers_place, fmt::format("{}: stage {} has no layer", key, part));
  }
  return stages;
}

}  // namespace

std::vector<std::vector<int>> divide_layers(const TrainingPlan& plan, const Scenario& s) {
  const bool balances = s.plan.layers.empty() && s.plan.balanced &&
                        layers_to_divide(*plan.network, s.plan) >= plan.virtual_stages();  // else there are too few
  return divided(*plan.network, s.plan, balances ? balanced(plan, s) : s.plan.layers);
}

std::vector<std::vector<int>> divide_layers(const Network& network, const PlanChoice& choice) {
  return divided(network, choice, choice.layers);
}

}  // namespace trainyard
