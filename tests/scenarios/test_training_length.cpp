#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "scenarios/src/running/simulate.hpp"

namespace scenarios_test_training_length {

using namespace trainyard;

namespace {

TrainingLength length_of(const std::string& text, double step_samples = 8, double sample_tokens = 64) {
  return read_training_length(parse_document(text, "plan.yaml"), step_samples, sample_tokens);
}

}  // namespace

TEST_CASE("the length of a training is given in steps, epochs, tokens or time", "[scenario][training-length]") {
  CHECK(length_of("{steps: 6000}").steps == 6000);
  CHECK(length_of("{epochs: 24, steps_per_epoch: 250}").steps == 6000);
  // 1001 samples are 126 steps of 8, the last one with a single sample.
  CHECK(length_of("{epochs: 3, samples: 1001}").steps == 378);
  CHECK(length_of("{tokens: 300e9}").steps == 585937500);
  for (const char* tokens : {"300B", "0.3T", "300000M", "300000000K"})
    CHECK(length_of(fmt::format("{{tokens: {}}}", tokens)).steps == 585937500);
  CHECK_THROWS_WITH(length_of("{tokens: manyB}"), Catch::Contains("\"manyB\" is not a number"));
  CHECK(length_of("{tokens: 513}").steps == 2);
  CHECK(describe(length_of("{epochs: 24, steps_per_epoch: 250}")) == "24 epochs × 250 steps");
  CHECK(describe(length_of("{epochs: 1, samples: 8}")) == "1 epoch × 1 step");
  CHECK(length_of("{time: 54 d}").time.value == 54 * 86400.0);
  CHECK(describe(length_of("{time: 54 d}")) == "54.0 days");
  CHECK(describe(length_of("{steps: 95367}")) == "95,367 steps");
}

TEST_CASE("a length that is stated twice, in part, or in tokens that the model does not read is refused",
          "[scenario][training-length]") {
  const std::string one_of =
      "plan.yaml:1:1: plan.training: expected one of {steps}, {tokens}, {time}, {epochs, samples} and {epochs, "
      "steps_per_epoch}";
  for (const char* text :
       {"{steps: 6, tokens: 6}", "{epochs: 6}", "{samples: 6}", "{epochs: 2, steps: 6}",
        "{epochs: 2, samples: 6, steps_per_epoch: 3}", "{steps: 6, samples: 3}", "{steps: 6, time: 3 d}", "{}"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(length_of(text), one_of);
  }
  CHECK_THROWS_WITH(length_of("{tokens: 6}", 8, 1),
                    "plan.yaml:1:10: plan.training.tokens: the model reads no tokens; expected epochs and samples");
  CHECK_THROWS_WITH(length_of("{steps: 1.5}"), "plan.yaml:1:9: plan.training.steps: 1.5 is no whole number");
  CHECK_THROWS_WITH(length_of("{steps: 0}"),
                    Catch::StartsWith("plan.yaml:1:9: plan.training.steps: 0 is out of range"));
  CHECK_THROWS_WITH(length_of("{step: 5}"), Catch::Contains("did you mean \"steps\""));
}

TEST_CASE("a training takes the time of a step times the number of its steps", "[scenario][training-length]") {
  const std::string text = R"({cluster: {node: t4-server}, model: {base: gpt2, n_layer: 1},
    plan: {data_parallel: 1, idle_devices: allowed, precision: fp16, seq_length: 64, micro_batch_size: 1, global_batch_size: 4, training: {tokens: 1000}}})";
  const Result r = simulate(read_scenario_text(text, "small.yaml"));
  CHECK(r.training_steps == 4);
  CHECK(r.training_time.value == Approx(4 * r.step_time.value).epsilon(1e-15));
  const Result back = result_from_json(to_json(r));
  CHECK(back.training_time.value == r.training_time.value);
  const Result without_length = simulate(read_scenario_text(text, "small.yaml", {{"plan.training", "null"}}));
  CHECK(without_length.training_steps == 0);
  CHECK_FALSE(to_json(without_length).contains("training_time_s"));
}

TEST_CASE("long times are printed in a fitting unit", "[scenario][training-length]") {
  CHECK(long_time(Seconds{127.46}) == "127 s");
  CHECK(long_time(Seconds{3600}) == "60.0 min");
  CHECK(long_time(Seconds{36000}) == "10.0 h");
  CHECK(long_time(Seconds{14 * 86400.0}) == "14.0 days");
  CHECK(long_time(Seconds{36 * 365.25 * 86400}) == "36.0 years");
}

}  // namespace scenarios_test_training_length
