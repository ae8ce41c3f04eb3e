// Loops whose ranks keep their samples, whose samples go through one process, and which train on parts of a step.
#include <catch2/catch.hpp>

#include "scenarios/src/post_training/rank_loads.hpp"
#include "tests/scenarios/loops.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_loop_batches {

using namespace trainyard;
using namespace trainyard::test;

namespace {

Overrides with_verl(Overrides overrides = {}) {
  overrides.emplace_back("post_training.stack", "verl");
  return overrides;
}

}  // namespace

TEST_CASE("an optimizer step lasts as long as its fullest rank, and a pass as the fullest of all steps",
          "[post-training]") {
  const Scenario s = loop_scenario(with_verl());
  PostTrainingChoice choice = *s.post_training;
  REQUIRE(choice.has_dynamic_batches());
  choice.prompts = 4;
  choice.samples_per_prompt = 1;
  choice.training_samples = 2;
  choice.prompt_tokens = 0;
  choice.answers = {100, 300, 200, 400};
  choice.packs->tokens = 256;
  const double linear = s.network.model_flops_per_token().value,
               pair =
                   s.network.attention_flops_per_token().value / 2 / static_cast<double>(s.network.tokens_per_sample);
  const auto work = [&](double tokens) { return tokens * linear + tokens * tokens * pair; };
  // The longest goes to rank 0, the next two to rank 1, the shortest to rank 0. Each rank takes its samples in order.
  const RankLoads loads = rank_loads(choice, s.network, 2);
  CHECK(loads.training == Approx((work(300) + work(400)) / (2 * work(256))));
  CHECK(loads.passes == Approx((work(100) + work(400)) / (2 * work(256))));
  choice.answers = {256, 256, 256, 256};
  CHECK(rank_loads(choice, s.network, 2).training == Approx(1));
  CHECK(rank_loads(choice, s.network, 2).passes == Approx(1));
  CHECK(rank_loads(*loop_scenario().post_training, s.network, 2).training == 1);
}

TEST_CASE("samples of a rank are divided into the fewest micro-batches within their tokens", "[post-training]") {
  const SamplePacks packs{.tokens = 1088};
  const SamplePacks::Batches one = packs.divided(512, 8, 245760), three = packs.divided(512, 8, 30000);
  CHECK(one.micro == 64);
  CHECK(one.global == 512);
  CHECK(three.micro == 22);
  CHECK(three.global == 3 * 22 * 8);
  const Scenario s = loop_scenario(with_verl());
  CHECK(static_cast<double>(s.micro_batch_size * s.post_training->packs->tokens) <=
        s.post_training->packs->most_tokens);
  CHECK(s.global_batch_size % s.micro_batch_size == 0);
}

TEST_CASE("padded samples take the time of their bytes in the controller, whatever the number of GPUs is",
          "[post-training]") {
  for (const char* nodes : {"2", "4"}) {
    CAPTURE(nodes);
    const Overrides overrides = with_verl({{"cluster.nodes", nodes}});
    const Scenario s = loop_scenario(overrides);
    const PostTrainingResult r = simulated_loop(overrides);
    const LoopController& controller = s.post_training->stack.controller;
    const double tokens = static_cast<double>(s.post_training->samples()) * s.post_training->padded_tokens;
    const int passes = s.post_training->log_probability_passes, ranks = s.ranks() / s.plan.mesh.data;
    CHECK(s.post_training->padded_tokens == 4096);
    CHECK(r.controller.value == Approx(tokens * (60 + passes * (40 + 8 * ranks)) / controller.rate.value));
    CHECK(r.controller < r.training + r.log_probabilities);
    CHECK(r.summed_parts().value == Approx(r.step_time.value));
  }
  CHECK(simulated_loop().controller.value == 0);
}

// Regression: a micro-batch above the packs of a rank trained on samples that nobody had generated.
TEST_CASE("a micro-batch has at most the packs of a rank, and padding is named", "[post-training]") {
  const char* const name = "post-training-dpo-llama3-8b-8xh100";
  const Scenario s = loop_scenario({}, name);
  const std::int64_t packs = s.post_training->packs->of_rank(s.post_training->training_samples, s.plan.mesh.data);
  CHECK(packs == 5);
  const auto with = [name](const char* key, std::int64_t size) {
    return loop_scenario({{key, std::to_string(size)}}, name);
  };
  const char *const training = "plan.micro_batch_size", *const pass =
                                                            "post_training.log_probabilities.micro_batch_size";
  CHECK(with(training, packs).global_batch_size == s.global_batch_size);
  CHECK_THROWS_WITH(with(training, 10),
                    Catch::Matchers::Contains("plan.micro_batch_size: 10 packs, but a rank has 5 packs in an "
                                              "optimizer step; expected at most 5"));
  const auto screen = [](const Scenario& loop) {
    std::string text;
    for (const char c : post_training_screen(loop, simulate_here(loop, {.critical_path = false}), {}))
      if (c != '\n' && (c != ' ' || !text.ends_with(' '))) text += c;
    return text;
  };
  CHECK(screen(s).find("micro-batches are equal") == std::string::npos);
  CHECK(screen(with(training, 2)).find("a rank has 5 packs and trains on 6, since its micro-batches are equal") !=
        std::string::npos);
  CHECK(with(training, 2).global_batch_size * 5 == s.global_batch_size * 6);
  // A pass of a rank takes its samples alone.
  const auto passes = [](const Scenario& loop) {
    return simulate_here(loop, {.critical_path = false}).post_training->log_probabilities.value;
  };
  CHECK(passes(with(pass, 10)) == passes(with(pass, 5)));
}

TEST_CASE("asynchronous training on parts of a step waits for less than on all of it", "[post-training]") {
  const auto loop = [](const char* parts, const char* staleness) {
    return simulated_loop({{"post_training.generation.nodes", "1"},
                           {"post_training.schedule", "asynchronous"},
                           {"post_training.staleness", staleness},
                           {"post_training.training_parts", parts}});
  };
  for (const char* staleness : {"0", "0.5"}) {
    CAPTURE(staleness);
    const PostTrainingResult undivided = loop("1", staleness), quarters = loop("4", staleness);
    CHECK(quarters.waiting < undivided.waiting);
    CHECK(quarters.step_time < undivided.step_time);
    CHECK(quarters.training.value == undivided.training.value);
    CHECK(quarters.summed_parts().value == Approx(quarters.step_time.value));
  }
  // With the controller, the receipt of the answers is part of the waiting, and the parts still sum to the step.
  const Overrides received = with_verl({{"post_training.generation.nodes", "1"},
                                        {"post_training.schedule", "asynchronous"},
                                        {"post_training.staleness", "4"},
                                        {"post_training.training_parts", "4"}});
  const PostTrainingResult r = simulated_loop(received);
  const PostTrainingChoice choice = *loop_scenario(received).post_training;
  const double tokens = static_cast<double>(choice.samples()) * choice.padded_tokens;
  CHECK(r.waiting.value >= choice.stack.controller.answer_time(tokens).value * (1 - 1e-12));
  CHECK(choice.stack.controller.answer_time(tokens).value == Approx(tokens * 44 / 0.61e9));
  CHECK(r.summed_parts().value == Approx(r.step_time.value));
  check_loop_refused({{"post_training.training_parts", "2"}}, "with post_training.schedule: asynchronous");
  check_loop_refused({{"post_training.generation.nodes", "1"},
                      {"post_training.schedule", "asynchronous"},
                      {"post_training.training_parts", "3"}},
                     "3 parts do not divide 64 prompts; nearest: 2 or 4");
}

}  // namespace scenarios_test_loop_batches
