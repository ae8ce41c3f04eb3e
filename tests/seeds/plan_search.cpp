// ALPA-01: all splits of a model over eight GPUs, and the search among them.
#include <algorithm>
#include <set>
#include <tuple>

#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/plan_search.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {
namespace {

/// A small GPT. Its heads, layers and batch can be divided by eight devices in every way. Only what the step allocates
/// counts, because the GPU is smaller than CUDA's context.
PlanQuestion even_question(int devices, const std::string& memory) {
  const std::string text = "cluster: {node: {base: dgx-a100, gpu: {memory_capacity: " + memory +
                           ", driver_memory: null}}}\n" + "model: {base: gpt2, n_layer: 8, n_embd: 512, n_head: 8}\n" +
                           "plan: {global_batch_size: " + std::to_string(2 * devices) + ", seq_length: 256}\n" +
                           "software: {base: megatron-core, bare_memory: true}\n";
  return read_plan_question(parse_document(text, "alpa.yaml"), "alpa");
}

/// Options that vary nothing except the mesh.
PlanSpaceOptions mesh_options() {
  PlanSpaceOptions options;
  options.vary = {{"plan.micro_batch_size", {"1"}},
                  {"plan.recompute", {"none"}},
                  {"plan.sequence_parallel", {"false"}},
                  {"plan.pipeline.schedule", {"1f1b"}},
                  {"plan.data_parallel.zero_stage", {"0"}}};
  return options;
}

/// The plans that are read and simulated like a user's file: their meshes, and the best step time (s) of those that fit.
struct HandPlans {
  std::set<std::tuple<int, int, int>> triples;
  double best = 1e30;
  std::size_t fitting = 0;
};
HandPlans simulate_all(const PlanQuestion& question, const PlanSpace& space) {
  HandPlans plans;
  for (const PlanPoint& group : space.groups())
    for (const PlanPoint& point : space.points(group)) {
      Scenario s = question.base;
      *s.document.find("plan") = space.section(point);
      s = read_again(s, {});
      plans.triples.emplace(s.plan.mesh.data, s.plan.mesh.pipeline, s.plan.mesh.tensor);
      const Result r = simulate(s);
      if (!r.fits) continue;
      ++plans.fitting;
      plans.best = std::min(plans.best, r.step_time.value);
    }
  return plans;
}

SeedFigures alpa_01(const Node& inputs) {
  const int devices = static_cast<int>(number_of(inputs, "devices"));
  SeedFigures got{{"search_is_no_worse", true}, {"plans_without_room_left_out", true}};
  for (const char* memory : {"80 GiB", "700 MiB"}) {
    const PlanQuestion question = even_question(devices, memory);
    const PlanSpace space(question, mesh_options());
    const HandPlans by_hand = simulate_all(question, space);
    Journal nowhere({});
    PlanRunner runner(question.base, space, nowhere);
    const PlanSearch found = search_plans(runner, space, space.groups(), {}, {});
    got["count_ordered_triples"] = by_hand.triples.size();
    if (!found.best() || found.best()->outcome.step_time > by_hand.best * (1 + 1e-12))
      got["search_is_no_worse"] = false;
    const bool all_fit = by_hand.fitting == by_hand.triples.size();
    if (all_fit != (std::string(memory) == "80 GiB") || (found.best() && !found.best()->outcome.fits))
      got["plans_without_room_left_out"] = false;
  }
  return got;
}

const RegisterSeed seed_alpa_01{"ALPA-01", alpa_01};

}  // namespace
}  // namespace trainyard
