// Pipelines without a flush: micro-batches of the next step follow at once, and stages keep versions of their weights.
#include <catch2/catch.hpp>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_flush {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

Scenario four_stages(int micro_batches, const std::string& pipeline, const Overrides& changes = {}) {
  return read_scenario_text(
      "cluster: {nodes: 1, node: {base: dgx-1v, gpu: {type: v100-sxm2-32gb}}}\n"
      "model: {base: gpt2-xl, tie_word_embeddings: false}\nsoftware: pytorch-ddp\n"
      "plan: {global_batch_size: " +
          std::to_string(micro_batches) +
          ", micro_batch_size: 1, seq_length: 512, precision: fp16, optimizer: sgd, pipeline_parallel: 4, "
          "data_parallel: {size: 1}, idle_devices: allowed, pipeline: {" +
          pipeline + "}}\n",
      "stages.yaml", changes);
}

}  // namespace

TEST_CASE("a pipeline without a flush has no bubble between steps, and keeps versions of its weights", "[pipeline]") {
  const Result flushed = simulate(four_stages(8, "")), unflushed = simulate(four_stages(8, "flush: false"));
  CHECK(unflushed.step_time.value < 0.9 * flushed.step_time.value);
  // PipeDream updates after each micro-batch, so that four stages are busy instead of one.
  CHECK(simulate(four_stages(1, "flush: false")).step_time.value < 0.5 * simulate(four_stages(1, "")).step_time.value);
  const TrainingPlan one_micro_batch = plan(four_stages(1, "flush: false")).training,
                     eight_micro_batches = plan(four_stages(8, "flush: false")).training,
                     flushed_plan = plan(four_stages(8, "")).training;
  for (int stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    CHECK(weight_versions(one_micro_batch, stage) == 4 - stage);
    CHECK(weight_versions(eight_micro_batches, stage) == (stage < 3 ? 2 : 1));
    CHECK(weight_versions(flushed_plan, stage) == 1);
    double elements = 0;
    for (const GradientBucket& bucket : one_micro_batch.stages[stage].buckets) elements += bucket.elements;
    CHECK((one_micro_batch.stages[stage].memory.parameters - flushed_plan.stages[stage].memory.parameters).value ==
          Approx(2 * elements * (3 - stage)));
  }
}

TEST_CASE("a pipeline without a flush is refused if its versions of weights are not modelled", "[pipeline][errors]") {
  const auto error = [](const std::string& pipeline, const Overrides& changes = {}) {
    return test::user_error([&] { plan(four_stages(8, pipeline, changes)); });
  };
  CHECK_THAT(error("flush: false, schedule: gpipe"), Contains("false is modelled with schedule 1f1b"));
  CHECK_THAT(error("flush: false", {{"model.tie_word_embeddings", "true"}}),
             Contains("a weight that the first and the last stage share; expected true"));
  CHECK_THAT(error("", {{"plan.pipeline.schedule", "1f1b"},
                        {"plan.pipeline.flush", "false"},
                        {"model.tie_word_embeddings", "true"}}),
             Catch::StartsWith("--set plan.pipeline.flush: false is not modelled"));
  CHECK_THAT(error("flush: false", {{"plan.data_parallel.size", "2"}, {"plan.data_parallel.zero_stage", "1"}}),
             Contains("is not modelled with ZeRO; expected true"));
}

}  // namespace scenarios_test_flush
