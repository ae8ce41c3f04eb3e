// A plan with schedule dualpipe: what its ranks hold and sum, how it folds, and what is refused.

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/search/plan_space.hpp"
#include "scenarios/src/search/step_floor.hpp"
#include "scenarios/src/studies/fold_check.hpp"
#include "scenarios/src/studies/layer_costs.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_two_copies {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

/// Eight GPUs: four stages of two data ranks.
std::string text(const std::string& pipeline, const std::string& more = "", const std::string& rest = "") {
  return "cluster: {nodes: 1, node: dgx-a100}\nmodel: {base: gpt2, n_layer: 8}\n"
         "plan: {micro_batch_size: 1, global_batch_size: 32, seq_length: 256, precision: bf16, pipeline_parallel: 4, "
         "pipeline: {" +
         pipeline + "}" + more + "}\n" + rest;
}

Scenario scenario(const std::string& pipeline, const std::string& more = "", const std::string& rest = "") {
  return read_scenario_text(text(pipeline, more, rest), "copies.yaml");
}

std::string refusal(const std::string& pipeline, const std::string& more = "", const std::string& rest = "") {
  return user_error([&] { plan(scenario(pipeline, more, rest)); });
}

const std::string kDualpipe = "schedule: dualpipe";

/// Adds up a part of the memory of all stages.
Bytes bytes_of_stages(const TrainingPlan& plan, Bytes StaticMemory::*part) {
  Bytes sum;
  for (const StagePlan& stage : plan.stages) sum += stage.memory.*part;
  return sum;
}

}  // namespace

TEST_CASE("the ranks of dualpipe hold every layer twice, and sum its gradients over both copies", "[two-copies]") {
  const TrainingPlan two_copies = plan(scenario(kDualpipe)).training,
                     one_copy = plan(scenario("schedule: dualpipe-v")).training;
  REQUIRE(two_copies.stages.size() == 4);
  std::vector<int> seen(two_copies.network->layers.size());
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const StagePlan &near_stage = two_copies.stages[stage], &opposite = two_copies.stages[3 - stage];
    CHECK(near_stage.chunks[0] == opposite.chunks[1]);
    for (const std::vector<int>& chunk : near_stage.chunks)
      for (const int layer : chunk) ++seen[static_cast<std::size_t>(layer)];
    CHECK(near_stage.memory.total().value == opposite.memory.total().value);
    REQUIRE(near_stage.buckets.size() == opposite.buckets.size());
    for (std::size_t b = 0; b < near_stage.buckets.size(); ++b)
      CHECK(near_stage.buckets[b].elements == opposite.buckets[b].elements);
  }
  CHECK(seen == std::vector<int>(seen.size(), 2));
  CHECK(two_copies.stages[0].chunks[0].front() == 0);
  CHECK(two_copies.stages[3].chunks[1].front() == 0);
  for (Bytes StaticMemory::*part : {&StaticMemory::parameters, &StaticMemory::gradients, &StaticMemory::optimizer})
    CHECK(bytes_of_stages(two_copies, part).value == near(2 * bytes_of_stages(one_copy, part).value));
  CHECK(two_copies.lane(Lane::gradients).group(0).members == std::vector<int>{0, 1, 6, 7});
  CHECK(one_copy.lane(Lane::gradients).group(0).members == std::vector<int>{0, 1});
  const TrainingPlan with_zero_1 = plan(scenario(kDualpipe, ", data_parallel: {zero_stage: 1}")).training;
  CHECK(bytes_of_stages(with_zero_1, &StaticMemory::optimizer).value ==
        near(bytes_of_stages(two_copies, &StaticMemory::optimizer).value / 4));
}

TEST_CASE("dualpipe folds to its stages, with the same answer", "[two-copies][folding]") {
  for (const std::string collectives : {"modelled", "messages", "flows"})
    for (const std::string more : {"", ", data_parallel: {zero_stage: 1}", ", data_parallel: {zero_stage: 3}",
                                   ", tensor_parallel: 2", ", mesh_order: [data, tensor, context, pipeline]"}) {
      CAPTURE(collectives, more);
      const Scenario s = scenario(kDualpipe, more + ", collectives: " + collectives);
      const FoldCheck check = check_folding(s, plan(s));
      CHECK(check.difference == "");
    }
}

TEST_CASE("the parts of a step of dualpipe sum to it, and its bounds hold", "[two-copies][search]") {
  for (const std::string more : {"", ", data_parallel: {zero_stage: 1}", ", tensor_parallel: 2"}) {
    CAPTURE(more);
    const Scenario s = scenario(kDualpipe, more);
    const TrainingPlan training = plan(s).training;
    const Result r = simulate(s);
    CHECK(r.fits);
    CHECK(r.stages.size() == 4);
    for (const Result::Stage& stage : r.stages) CHECK(stage.layers > 0);
    CHECK(step_floor(s, training, PassFloors(s, training)) <= r.step_time.value);
    const PlanMemory memory = memory_of(s, training);
    if (memory.exact)
      CHECK(memory.peak.value == Approx(r.memory.peak.value).epsilon(1e-12));
    else
      CHECK(memory.peak.value <= r.memory.peak.value * (1 + 1e-12));
    CHECK(layer_costs(s, training, 0).micro_batches == training.micro_batches / 2);
  }
}

TEST_CASE("layers of dualpipe are cut into one part a stage", "[two-copies][layer-division]") {
  const TrainingPlan cut = plan(scenario(kDualpipe + ", layers: [1, 3, 3, 1]")).training;
  CHECK(cut.stages[0].chunks == std::vector<std::vector<int>>{{0, 1}, {8, 9}});
  CHECK(cut.stages[2].chunks == std::vector<std::vector<int>>{{5, 6, 7}, {2, 3, 4}});
  CHECK_THAT(refusal(kDualpipe + ", layers: [1, 1, 1, 1, 1, 1, 1, 1]"),
             Contains("8 numbers for 4 stages in both directions"));
  const TrainingPlan balanced = plan(scenario(kDualpipe + ", layers: balanced")).training;
  std::size_t layers = 0;
  for (const StagePlan& stage : balanced.stages) layers += stage.chunks[0].size();
  CHECK(layers == balanced.network->layers.size());
}

TEST_CASE("plans that dualpipe cannot run are refused with their place and the nearest choice",
          "[two-copies][errors]") {
  CHECK(refusal(kDualpipe) == "");
  CHECK_THAT(refusal(kDualpipe + ", chunks: 3"), Contains("copies.yaml:3:") && Contains("this schedule needs 2"));
  CHECK_THAT(
      refusal(
          kDualpipe, "",
          "input: {dataset: {samples: 1000, sample_size: 1 kB}, storage: {name: s, read: 1 TB/s, latency: 1 us}}\n"),
      Contains("copies.yaml:3:") && Contains("dualpipe takes micro-batches at both ends") &&
          Contains("nearest: dualpipe-v"));
  CHECK_THAT(refusal(kDualpipe, ", activation_offload: all"), Contains("not modelled with dualpipe"));
  CHECK_THAT(refusal("schedule: chimera"), Contains("dualpipe"));
}

TEST_CASE("a search considers dualpipe if it is named", "[two-copies][search]") {
  const PlanQuestion question = read_plan_question(
      parse_document("cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 8}\n"
                     "plan: {global_batch_size: 32, seq_length: 256, micro_batch_size: 1}\nsoftware: megatron-core\n",
                     "small.yaml"),
      "small");
  PlanSpaceOptions options;
  options.vary = {{"plan.pipeline.schedule", {"1f1b", "dualpipe"}}};
  const PlanSpace space(question, options);
  int found = 0;
  for (const PlanPoint& group : space.groups())
    for (const PlanPoint& point : space.points(group)) {
      if (point.schedule != "dualpipe") continue;
      ++found;
      CHECK(point.chunks == 2);
      CHECK(point.pipeline % 2 == 0);
    }
  CHECK(found > 0);
}

}  // namespace scenarios_test_two_copies
