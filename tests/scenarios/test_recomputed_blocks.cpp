// Full recomputation of the blocks that begin each virtual stage.
#include <catch2/catch.hpp>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_recomputed_blocks {

using namespace trainyard;

namespace {

Scenario scenario_of(const std::string& plan_keys, int stages = 1) {
  return read_scenario_text("cluster: {node: {base: dgx-a100, gpu: {count: " + std::to_string(stages) +
                                "}}}\nmodel: {base: gpt2, n_layer: 8}\nsoftware: plain\n"
                                "plan:\n  global_batch_size: 8\n  micro_batch_size: 2\n  seq_length: 256\n"
                                "  data_parallel: 1\n  pipeline_parallel: " +
                                std::to_string(stages) + "\n" + plan_keys,
                            "blocks.yaml");
}

std::vector<bool> recomputed_layers(const Scenario& s) {
  std::vector<bool> flags;
  for (const Layer& layer : plan(s).training.network->layers) flags.push_back(layer.recomputes_all);
  return flags;
}

std::string error_of_blocks(const std::string& plan_keys) {
  return test::user_error([&] { plan(scenario_of(plan_keys)); });
}

}  // namespace

TEST_CASE("each recomputed block adds its forward pass, and gives up its activations", "[recompute]") {
  const Result without_recompute = simulate(scenario_of("")),
               full_recompute = simulate(scenario_of("  recompute: full\n"));
  const double block = (full_recompute.step_time.value - without_recompute.step_time.value) / 8;
  CHECK(block > 0);
  double previous_peak = without_recompute.memory.peak.value;
  for (const int count : {1, 3, 7}) {
    CAPTURE(count);
    const Result r = simulate(scenario_of("  recompute: {full: " + std::to_string(count) + "}\n"));
    CHECK(r.step_time.value == Approx(without_recompute.step_time.value + count * block).epsilon(1e-9));
    CHECK(r.memory.peak.value < previous_peak);
    // A block that is kept holds no more than a recomputed block makes again.
    CHECK(r.memory.peak.value >= full_recompute.memory.peak.value);
    previous_peak = r.memory.peak.value;
  }
  const Result eight_blocks = simulate(scenario_of("  recompute: {full: 8}\n"));
  CHECK(eight_blocks.step_time.value == Approx(full_recompute.step_time.value).epsilon(1e-12));
  CHECK(eight_blocks.memory.peak.value == full_recompute.memory.peak.value);
}

TEST_CASE("the recomputed blocks are the first of each virtual stage", "[recompute]") {
  CHECK(recomputed_layers(scenario_of("  recompute: {full: 2}\n")) ==
        std::vector<bool>{false, true, true, false, false, false, false, false, false, false});
  CHECK(recomputed_layers(scenario_of("  recompute: {full: 1}\n", 2)) ==
        std::vector<bool>{false, true, false, false, false, true, false, false, false, false});
  CHECK(recomputed_layers(
            scenario_of("  recompute: {full: 1}\n  pipeline: {schedule: interleaved-1f1b, chunks: 2}\n", 2)) ==
        std::vector<bool>{false, true, false, true, false, true, false, true, false, false});
}

TEST_CASE("more recomputed blocks than a stage has are refused", "[recompute]") {
  CHECK_THAT(error_of_blocks("  recompute: {full: 9}\n"),
             Catch::Contains("plan.recompute.full: 9 blocks a stage, but virtual stage 0 has 8"));
  CHECK_THAT(error_of_blocks("  recompute: {full: 0}\n"), Catch::Contains("plan.recompute.full: 0 is too small"));
  CHECK_THAT(error_of_blocks("  recompute: {selective: 2}\n"), Catch::Contains("full"));
}

}  // namespace scenarios_test_recomputed_blocks
