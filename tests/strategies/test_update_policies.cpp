// A mechanism of one file (every_second_step.cpp), and the numbers of a training's buffers and calls.
#include <catch2/catch.hpp>

#include "scenarios/src/running/simulate.hpp"
#include "strategies/plan/training_buffers.hpp"
#include "strategies/plan/training_calls.hpp"

namespace strategies_test_update_policies {

using namespace trainyard;

namespace {

Result replicas(const std::string& mechanism, const Overrides& overrides = {}) {
  return simulate(
      read_scenario_text("cluster: {nodes: 1, node: pcie-4}\n"
                         "model: {mlp: {widths: [64, 64, 8]}}\n"
                         "plan: {micro_batch_size: 4, precision: fp32, data_parallel: {mechanism: " +
                             mechanism + "}}\n",
                         "replicas.yaml", overrides));
}

}  // namespace

TEST_CASE("gradients that are summed every second step take half the traffic", "[replicas]") {
  const Result always = replicas("all-reduce", {{"plan.steps", "2"}}), every_second = replicas("every-second-step");
  CHECK(every_second.steps == 2);
  CHECK(every_second.bytes_total.value == Approx(always.bytes_total.value / 2));
  CHECK(every_second.step_time.value < always.step_time.value);
  CHECK_THROWS_WITH(replicas("every-second-step", {{"plan.steps", "3"}}), Catch::Contains("every second step"));
}

TEST_CASE("buffers of a training are numbered without overlap, and checked", "[training]") {
  for (int kind = 0; kind < kBufferKinds; ++kind) {
    const auto k = static_cast<TrainingBuffer::Kind>(kind);
    for (const std::size_t index : {std::size_t{0}, count_of(k) - 1}) {
      const TrainingBuffer decoded = training_buffer(number_of({k, index}));
      CHECK(decoded.kind == k);
      CHECK(decoded.index == index);
    }
    CHECK_THROWS_AS(number_of({k, count_of(k)}), InternalError);
  }
  CHECK_THROWS_AS(training_buffer(kScratch), InternalError);
}

TEST_CASE("packing a call keeps its arguments", "[training]") {
  const CallArguments packed = arguments_of(effect_of(TrainingCall::backward, {7, 65535, kEndOfPass, 1030}));
  CHECK(packed.index == 7);
  CHECK(packed.micro_batch == 65535);
  CHECK(packed.exchange == kEndOfPass);
  CHECK(packed.buffer == 1030);
  CHECK_THROWS_AS(effect_of(TrainingCall::forward, {70000}), InternalError);
  CHECK_THROWS_AS(effect_of(TrainingCall::forward, {0, -1}), InternalError);
}

}  // namespace strategies_test_update_policies
