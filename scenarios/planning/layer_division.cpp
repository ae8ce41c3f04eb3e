#include "scenarios/planning/layer_division.hpp"

#include <fmt/format.h>

#include <numeric>

namespace trainyard {

int layers_to_divide(const Network& network, const PlanChoice& choice) {
  const int count = static_cast<int>(network.layers.size());
  const bool ends = count > 2 && network.layers.front().name == "embedding" && network.layers.back().name == "head";
  return ends && !choice.ends_count_as_layers ? count - 2 : count;
}

std::vector<std::vector<int>> divide_layers(const Network& network, const PlanChoice& choice) {
  const int parts = choice.mesh.pipeline * choice.chunks, body = layers_to_divide(network, choice);
  const bool apart = body != static_cast<int>(network.layers.size());
  if (parts > body)
    fail(choice.place,
         fmt::format("plan.pipeline_parallel: {} stages x {} chunks, but {} has {} layers{}", choice.mesh.pipeline,
                     choice.chunks, network.name, body, apart ? " between embedding and head" : ""));
  std::vector<std::int64_t> each = choice.layers;
  if (each.empty()) {
    // What is left over goes to the middle first: the ends have the embedding and the head besides.
    each.assign(static_cast<std::size_t>(parts), body / parts);
    int left = body % parts;
    for (int i = 1; i + 1 < parts && left > 0; ++i, --left) ++each[i];
    if (left > 0) ++each.front();
  }
  if (std::accumulate(each.begin(), each.end(), std::int64_t{0}) != body)
    fail(choice.layers_place, fmt::format("plan.pipeline.layers: {} in all, but {} has {}{}",
                                          std::accumulate(each.begin(), each.end(), std::int64_t{0}), network.name,
                                          body, apart ? " between embedding and head" : ""));
  std::vector<std::vector<int>> stages(static_cast<std::size_t>(parts));
  int next = 0;
  for (int part = 0; part < parts; ++part) {
    std::vector<int>& stage = stages[part];
    const auto end =
        static_cast<int>(next + each[part] + (apart && part == 0 ? 1 : 0) + (apart && part + 1 == parts ? 1 : 0));
    for (; next < end; ++next) stage.push_back(next);
    if (stage.empty()) fail(choice.layers_place, fmt::format("plan.pipeline.layers: stage {} has no layer", part));
  }
  return stages;
}

}  // namespace trainyard
