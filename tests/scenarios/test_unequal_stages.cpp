// `plan.pipeline.stages`: the layers and ranks that a plan states for each stage.

#include <catch2/catch.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/capacity.hpp"
#include "scenarios/src/studies/fold_check.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_unequal_stages {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

Scenario scenario(const std::string& plan, const std::string& model = "{mlp: {widths: [1024, 2048, 1024, 512, 256]}}",
                  const std::string& rest = "") {
  return read_scenario_text(
      "cluster: {nodes: 1, node: dgx-a100}\nmodel: " + model + "\nplan: {precision: bf16, " + plan + "}\n" + rest,
      "stages.yaml");
}

double step(const Scenario& s) { return simulate(s, {.critical_path = false}).step_time.value; }

const std::string kGpt = "{base: gpt2, n_layer: 6}", kSequenceLength = ", seq_length: 128";

}  // namespace

TEST_CASE("stages of equal width are those of a plan with one width for all stages", "[unequal-stages][scenario]") {
  // Data ranks share the samples of a micro-batch.
  for (const std::string tied : {"true", "false"})
    for (const std::string more : {"", ", collectives: messages", ", recompute: full"}) {
      const std::string model = "{base: gpt2, n_layer: 6, tie_word_embeddings: " + tied + "}";
      const Scenario by_stage = scenario(
                         "micro_batch_size: 4, global_batch_size: 32, pipeline: {stages: [{layers: 3, tensor: 2, data: "
                         "2}, {layers: 3, tensor: 2, data: 2}]}" +
                             kSequenceLength + more,
                         model),
                     uniform = scenario(
                         "micro_batch_size: 2, global_batch_size: 32, pipeline_parallel: 2, tensor_parallel: 2" +
                             kSequenceLength + more,
                         model);
      CAPTURE(tied, more);
      if (tied == "false")
        CHECK(step(by_stage) == Approx(step(uniform)).epsilon(1e-12));
      else
        CHECK(step(by_stage) == Approx(step(uniform)).epsilon(0.02));  // the tied weight's gradients take another path
      CHECK(simulate(by_stage).memory.peak.value == Approx(simulate(uniform).memory.peak.value).epsilon(1e-12));
    }
}

TEST_CASE("a stage on half as many devices waits nearly twice as long for its input", "[unequal-stages][scenario]") {
  const auto input_wait = [](const std::string& last) {
    const Result r =
        simulate(scenario("micro_batch_size: 65536, global_batch_size: 65536, collectives: messages, idle_devices: "
                          "allowed, pipeline: {overlap: false, stages: [{layers: 1, data: 2}, " +
                              last + "]}",
                          "{mlp: {widths: [8, 16384, 8]}}"));
    return r.stages.back().breakdown.exposed_communication.at("pipeline");
  };
  CHECK(input_wait("{layers: 1}") > 1.9 * input_wait("{layers: 1, data: 2}"));
}

TEST_CASE("an exchange between stages takes each rank as long, besides its wait for the rank that begins last",
          "[unequal-stages][scenario]") {
  const Result r = simulate(read_scenario(shipped_file("scenarios/naive-vs-gpipe.yaml"), {}));
  const auto moving = [](const Result::Stage& stage) {
    return stage.breakdown.exposed_communication.at("tied weight");
  };
  CHECK(r.stages.back().breakdown.joining > 0.1 * r.step_time);
  CHECK(r.stages.back().breakdown.joining <= r.stages.back().breakdown.bubble);
  CHECK(r.stages.front().breakdown.joining.value == Approx(0).margin(1e-9));
  CHECK(moving(r.stages.back()) == Approx(moving(r.stages.front())).epsilon(1e-9));
}

TEST_CASE("ranks of unequal stages that are alike are simulated once, with the same answer",
          "[unequal-stages][folding]") {
  for (const std::string more : {"", ", collectives: messages", ", collectives: flows"})
    for (const std::string stages :
         {"{layers: 2, tensor: 2, data: 2}, {layers: 2, data: 2}, {layers: 2, tensor: 2}",
          "{layers: 3, data: 4}, {layers: 3, tensor: 4}", "{layers: 2, tensor: 4}, {layers: 4, data: 3}"}) {
      const Scenario s =
          scenario("micro_batch_size: 12, global_batch_size: 96, idle_devices: allowed, pipeline: {stages: [" + stages +
                       "]}" + kSequenceLength + more,
                   kGpt);
      CAPTURE(more, stages);
      CHECK(check_folding(s, plan(s)).difference == "");
    }
}

TEST_CASE("unequal stages have what-ifs, a critical path and a capacity as other steps have",
          "[unequal-stages][scenario]") {
  const Scenario s = scenario(
      "micro_batch_size: 12, global_batch_size: 48, pipeline: {stages: [{layers: 1, data: 3}, {layers: 2, tensor: 4, "
      "linear_split: [columns, rows]}, {layers: 1}]}");
  const TrainingPlan training = plan(s).training;
  CHECK(training.ranks() == 8);
  CHECK(training.stages[1].chunks.front() == std::vector<int>{1, 2});
  CHECK(training.stages[0].memory.parameters.value == Approx(2 * 1025.0 * 2048));
  CHECK(training.stages[1].memory.parameters.value ==
        Approx(2 * (2048.0 * 1024 / 4 + 1024 / 4 + 1024 * 512 / 4 + 512)));
  const Result r = simulate(s);
  REQUIRE(r.stages.size() == 3);
  CHECK(r.ranks == 8);
  AnswerOptions options;
  options.factor = 2;
  options.reasons = true;
  const Answer all = answer(s, options);
  CHECK(all.result.step_time.value == Approx(r.step_time.value).epsilon(1e-12));
  CHECK(all.what_ifs.size() > 3);
  for (const WhatIf& w : all.what_ifs) CHECK(w.step_time.value <= r.step_time.value * (1 + 1e-9));
  REQUIRE(all.path);
  CHECK_FALSE(all.path->empty());
  CHECK(capacity(s).largest_micro_batch_size % 3 == 0);
}

TEST_CASE("impossible unequal stages are refused with their place", "[unequal-stages][errors]") {
  const auto error_of = [](const std::string& stages, const std::string& more = "",
                           const std::string& model = "{mlp: {widths: [1024, 2048, 1024, 512, 256]}}") {
    return test::user_error([&] {
      plan(scenario("micro_batch_size: 4, global_batch_size: 32, idle_devices: allowed, pipeline: {stages: [" + stages +
                        "]}" + more,
                    model));
    });
  };
  const std::string two_stages = "{layers: 2, tensor: 2}, {layers: 2}", place = "stages.yaml:3:";
  CHECK(error_of(two_stages) == "");
  for (const std::string more :
       {", tensor_parallel: 2", ", pipeline_parallel: 3", ", context_parallel: 2", ", data_parallel: 2",
        ", data_parallel: {zero_stage: 1}", ", recompute: {full: 1}", ", mesh_order: [tensor, context, pipeline, data]",
        ", strategy: megatron", ", data_parallel: {gossip: ring}", ", linear_split: rows",
        ", data_parallel: {compression: {name: top-k, density: 0.1}}"}) {
    CAPTURE(more);
    const std::string error = error_of(two_stages, more);
    CHECK_THAT(error, Contains(place) && Contains("stages"));
  }
  CHECK_THAT(error_of("{layers: 2, tensor: 3}, {layers: 2}"),
             Contains("plan.pipeline.stages: mlp: tensor parallelism over 3 ranks"));
  CHECK_THAT(error_of("{layers: 2, data: 3}, {layers: 2}"),
             Contains("3 data ranks of stage 0") && Contains("nearest: 3 or 6"));
  CHECK_THAT(error_of("{layers: 2}, {layers: 3}"), Contains("plan.pipeline.stages: 5 in all, but mlp has 4"));
  CHECK_THAT(error_of("{layers: 4}, {layers: 0}"), Contains("stage 1 has no layer"));
  CHECK_THAT(error_of("{layers: 2, tensor: 2, linear_split: [rows]}, {layers: 2}"), Contains("2 layers has 1"));
  CHECK_THAT(error_of("{layers: 2, linear_split: rows}, {layers: 2}"),
             Contains("plan.pipeline.stages.tensor, which is 1"));
  CHECK_THAT(error_of("{layers: 2, tensors: 2}, {layers: 2}"), Contains("did you mean \"tensor\"?"));
  CHECK_THAT(error_of("{layers: 2, tensor: 8}, {layers: 2}"), Contains("9 ranks, but the cluster has 8 GPUs"));
  CHECK_THAT(error_of("{layers: 6, tensor: 2, linear_split: rows}, {layers: 6}", kSequenceLength, "gpt2"),
             Contains("other than an mlp"));
}

}  // namespace scenarios_test_unequal_stages
