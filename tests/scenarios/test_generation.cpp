// Engines that answer prompts without a loop, and the times of answers.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/generation_doubt.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "tests/scenarios/loops.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_generation {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kEngines = "generation-llama3-70b-2xh100";

Result simulated(const Overrides& overrides = {}) {
  return simulate_here(loop_scenario(overrides, kEngines), {.critical_path = false});
}

void check_refused(const Overrides& overrides, const std::string& words) {
  CAPTURE(words);
  const auto price = [&] {
    const Scenario s = loop_scenario(overrides, kEngines);
    return generation_costs(*s.generation, s.model.entry);
  };
  CHECK_THROWS_WITH(price(), Contains(words));
}

}  // namespace

TEST_CASE("the first token comes with the pass of its prompt, and the others follow", "[post-training]") {
  const PlainCosts costs;
  const EngineRun one = run_engine(costs, {{0, 11}}, kLimits);
  const AnswerTimes times = answer_times({&one});
  CHECK(times.first_token.value == Approx(100e-6));
  CHECK(times.late_first_token.value == Approx(times.first_token.value));
  CHECK(times.median_first_token.value == Approx(times.first_token.value));
  CHECK(times.token.value == Approx(1.1e-3));
  EngineLimits server = kLimits;
  server.request = Seconds{0.03};
  const EngineRun served = run_engine(costs, {{0, 11}}, server);
  CHECK(answer_times({&served}).first_token.value == Approx(0.03 + 100e-6));
  CHECK(answer_times({&served}).token.value == Approx(1.1e-3));
  // Two passes of 200 tokens give the first tokens: the first pass those of two prompts, the second that of the third.
  EngineLimits passes = kLimits;
  passes.pass_tokens = 200;
  const EngineRun three = run_engine(costs, {{0, 11}, {1, 11}, {2, 11}}, passes);
  CHECK(three.first_tokens[0].value == Approx(200e-6));
  CHECK(three.first_tokens[1].value == Approx(200e-6));
  CHECK(three.first_tokens[2].value == Approx(300e-6));
  const EngineRun single = run_engine(costs, {{0, 1}}, kLimits);
  CHECK(answer_times({&single}).token.value == 0);
  CHECK(answer_times({&one}, one.time).first_token.value == 0);  // no answer ends later

  const std::vector<PlannedAnswer> answers = planned_answers(200, 0.5);
  EngineLimits narrow = kLimits;
  narrow.most_sequences = 20;
  const EngineRun all = run_engine(costs, answers, narrow);
  const AnswerTimes waiting = answer_times({&all});
  CHECK(waiting.late_first_token > waiting.first_token);
  CHECK(waiting.late_first_token <= *std::ranges::max_element(all.first_tokens));
  // Prompts that come as others end wait for no one.
  const EngineRun closed = run_engine_for(costs, answers, kLimits, 20);
  CHECK(closed.time.value == Approx(all.time.value));
  CHECK(closed.tokens == all.tokens);
  CHECK(answer_times({&closed}).first_token < 0.01 * waiting.first_token);
  CHECK(run_engine_for(costs, answers, kLimits, 0).time == run_engine(costs, answers, kLimits).time);
}

TEST_CASE("engines answer prompts without a loop, and their figures agree", "[post-training]") {
  const Result r = simulated();
  REQUIRE(r.generation);
  const GenerationResult& g = *r.generation;
  const PostTrainingResult& e = g.engines;
  CHECK_FALSE(r.post_training);
  CHECK(e.engines == 1);
  CHECK(e.generation_gpus == 2);
  CHECK(g.tokens_per_s * e.generation.value == Approx(1024 * 1000));
  CHECK(g.tokens_per_s_per_gpu == Approx(g.tokens_per_s / 2));
  CHECK(g.requests_per_s * e.generation.value == Approx(1024));
  const PostTrainingResult::EngineParts& p = e.parts;
  CHECK(p.prefill.value + p.products.value + p.cache.value + p.exchanges.value + p.host.value ==
        Approx(e.generation.value));
  CHECK(e.preemptions == 0);
  CHECK(e.answers.late_first_token > e.answers.first_token);
  CHECK(e.answers.first_token > Seconds{});
  CHECK(e.answers.token > Seconds{});
}

// Regression: the forward pass of an engine in fp8 had weights in bf16.
TEST_CASE("the memory of a forward pass has the weights of the engine in their format", "[post-training]") {
  for (const char* format : {"fp8", "nvfp4", "bf16"}) {
    CAPTURE(format);
    const Overrides short_answers{{"generation.precision", format},
                                  {"generation.requests", "4"},
                                  {"generation.memory_share", "0.98"},
                                  {"cluster.node.base", "dgx-b200"},
                                  {"generation.answer_tokens", "{mean: 10, variation: 0, most: 10}"}};
    const Result r = simulated(short_answers);
    CHECK(r.memory.parameters.value == Approx(r.generation->engines.memory.weights.value).epsilon(0.002));
  }
  const Result r = simulated();
  CHECK(r.memory.parameters.value < 0.55 * 70.55e9);
  const Scenario s = loop_scenario({}, kEngines);
  CHECK_THAT(screen(s, plan(s), r, {}),
             Contains(fmt::format("products in fp8 are counted against the bf16 peak; of the fp8 peak it is {:.1f} %",
                                  r.mfu * 50)));
}

TEST_CASE("engines have intervals by the errors of measured ones, and what these lack is named",
          "[post-training][coverage]") {
  const GenerationResult all = *answer(loop_scenario({}, kEngines)).result.generation;
  const double spread = GenerationDoubt::shipped().spread(GenerationFigure::throughput, "dense", kLikely);
  REQUIRE((all.likely_tokens && all.likely_time));
  CHECK(all.likely_tokens->front() == Approx(all.tokens_per_s / std::exp(spread)));
  CHECK(all.likely_time->back() == Approx(all.engines.generation.value * std::exp(spread)));
  CHECK_FALSE(all.likely_token);
  CHECK(all.unmeasured.empty());
  const GenerationResult closed =
      *answer(loop_scenario({{"generation.concurrency", "16"}}, kEngines)).result.generation;
  const double token = GenerationDoubt::shipped().spread(GenerationFigure::token, "dense", kLikely);
  REQUIRE((closed.likely_token && closed.likely_first_token));
  CHECK(closed.likely_token->back() == Approx(closed.engines.answers.token.value * std::exp(token)));
  CHECK(closed.likely_tokens->back() == Approx(closed.tokens_per_s * std::exp(token)));
  CHECK(closed.likely_first_token->front() < closed.engines.answers.first_token.value);
  const GenerationResult other =
      *answer(loop_scenario({{"cluster.node.base", "dgx-h200"}}, kEngines)).result.generation;
  CHECK(other.unmeasured == "the GPU h200-sxm-141gb");
  // Each system is left out of the spread of the others.
  for (const GenerationFigure figure : {GenerationFigure::token, GenerationFigure::first_token}) {
    const ClassCoverage c = coverage_of("", 0, cover_each_engine(GenerationDoubt::shipped(), figure));
    CHECK(c.families == 22);
    CHECK(c.by_steps[kLikelyIndex] == Approx(0.81).margin(0.015));
    CHECK(c.by_families[kLikelyIndex] == Approx(0.75).margin(0.01));
  }
}

TEST_CASE("fewer prompts at a time have faster answers, and longer ones take longer", "[post-training]") {
  const GenerationResult all = *simulated().generation, few = *simulated({{"generation.concurrency", "16"}}).generation;
  CHECK(few.engines.answers.token < all.engines.answers.token);
  CHECK(few.engines.answers.first_token < all.engines.answers.first_token);
  CHECK(few.tokens_per_s < all.tokens_per_s);
  CHECK(few.engines.sequences <= 16);
  const GenerationResult longer =
      *simulated({{"generation.answer_tokens", "{mean: 2000, variation: 0, most: 2000}"}}).generation;
  CHECK(longer.engines.generation > all.engines.generation);
  CHECK(longer.engines.memory.cache_peak >= 0.9 * all.engines.memory.cache_peak);
}

TEST_CASE("engines of a loop and engines alone generate alike", "[post-training]") {
  const Overrides loop{{"post_training.samples_per_prompt", "1"}, {"post_training.prompts", "512"}};
  const Scenario s = loop_scenario(loop);
  PostTrainingResult of_loop;
  generate_answers(*s.post_training, s.model.entry, of_loop);
  const Scenario alone = read_scenario_text(
      "cluster: {nodes: 2, node: dgx-h100, fabric: nonblocking}\nmodel: llama-3-8b\n"
      "plan: {mode: inference, micro_batch_size: 1, seq_length: 128}\n"
      "generation: {engine: vllm, memory_share: 0.6, requests: 512, prompt_tokens: 110, "
      "answer_tokens: {mean: 1019, variation: 0.3, most: 3986}}\n",
      "alone.yaml");
  const GenerationResult g = generation_result(*alone.generation, alone.model.entry);
  CHECK(g.engines.generation.value == Approx((of_loop.generation + alone.generation->engine.host_request).value));
  CHECK(g.engines.answers.token.value == of_loop.answers.token.value);
  CHECK(g.engines.memory.cache_peak == of_loop.memory.cache_peak);
}

TEST_CASE("no first token comes after the last answer has ended", "[post-training]") {
  for (const char* engine : {"vllm", "trtllm", "sglang"})
    for (const char* tokens : {"1", "2", "8"}) {
      CAPTURE(engine, tokens);
      const Scenario s = read_scenario_text(
          std::string("cluster: {nodes: 1, node: {base: dgx-h100, gpu: {count: 1}}}\nmodel: llama-3-8b\n"
                      "plan: {mode: inference, micro_batch_size: 1, seq_length: 16}\n"
                      "generation: {engine: ") +
              engine + ", requests: 1, prompt_tokens: 100, answer_tokens: {mean: " + tokens +
              ", variation: 0, most: " + tokens + "}}\n",
          "one.yaml");
      const PostTrainingResult r = generation_result(*s.generation, s.model.entry).engines;
      const double more = std::stod(tokens) - 1;
      CHECK(r.generation >= r.answers.late_first_token * (1 - 1e-12));
      CHECK(r.generation.value == Approx((r.answers.first_token + more * r.answers.token).value));
    }
}

TEST_CASE("an asynchronous loop states the times of its answers", "[post-training]") {
  const PostTrainingResult r =
      simulated_loop({{"post_training.generation.nodes", "1"}, {"post_training.schedule", "asynchronous"}});
  CHECK(r.answers.first_token > Seconds{});
  CHECK(r.answers.late_first_token >= r.answers.first_token);
  CHECK(r.answers.token.value > 0.5 * r.token_time.value);
}

TEST_CASE("throughputs of TensorRT-LLM are as far off as the manual says, also with each model left out",
          "[post-training][measured]") {
  const std::vector<MeasuredFamily> families = measured_families({"post-training"}, {"trtllm"});
  const FamilyPrediction trtllm = predict_families(families).front();
  CHECK(trtllm.refused_runs() == 0);
  const ErrorSet errors = *trtllm.figure(0);
  CHECK(errors.points.size() == 115);
  CHECK(holds(trtllm.figures[0].limits, errors));
  const SequenceFit fit = fit_sequence_time(families.front(), trtllm);
  CHECK(fit.catalog[0].value == 0);
  CHECK(fit.catalog[1].value == Approx(10.5e-6));
  CHECK(fit.fitted[0].value == 0);
  CHECK(fit.fitted[1].value == Approx(10.5e-6).margin(0.5e-6));
  // The figures of the manual (post-training.md).
  CHECK(errors.mean_abs == Approx(0.090).margin(0.0006));
  CHECK(errors.signed_mean == Approx(0.004).margin(0.0006));
  CHECK(errors.worst_abs == Approx(0.35).margin(0.006));
  CHECK(errors.rank_correlation == Approx(0.99).margin(0.006));
  CHECK(fit.left_out.mean_abs == Approx(0.096).margin(0.0006));
  CHECK(fit.left_out.signed_mean == Approx(0.009).margin(0.0011));
  const auto mean_of = [&errors](std::string_view run) {
    double sum = 0;
    int count = 0;
    for (const MeasuredPoint& point : errors.points)
      if (point.id.find(run) != std::string::npos) sum += std::abs(point.error()), ++count;
    return sum / count;
  };
  CHECK(mean_of("235b-a22b-h100") == Approx(0.13).margin(0.006));
  CHECK(mean_of("gpt-oss-120b-h100") == Approx(0.24).margin(0.006));
  CHECK(mean_of("gpt-oss-20b-h100") == Approx(0.15).margin(0.006));
}

TEST_CASE("engines keep the measured times of tokens and throughputs", "[.deep][measured]") {
  const std::vector<MeasuredFamily> measured = measured_families({"serving"});
  const std::vector<FamilyPrediction> families = predict_families(measured);
  REQUIRE(families.size() == 1);
  CHECK(GenerationDoubt(generation_errors(measured, families)).csv() ==
        file_text(shipped_file("scenarios/measured/tables/serving_errors.csv")));
  const ErrorSet token = *families[0].figure(0), first = *families[0].figure(1);
  // The figures of the manual (post-training.md).
  CHECK(token.n == 1353);
  CHECK(token.mean_abs < 0.109);
  CHECK(token.median_abs < 0.078);
  CHECK(token.rank_correlation > 0.97);
  CHECK(first.n == 1267);
  CHECK(first.median_abs < 0.28);
  for (const FamilyPrediction& family : families) CHECK(family.refused_runs() == 0);
}

TEST_CASE("throughputs of engines outside the fit are as far off as the manual says", "[.deep][measured]") {
  const std::vector<FamilyPrediction> families =
      predict_families(measured_families({"outside-the-fit"}, {"trtllm-others", "vllm-mi300x"}));
  REQUIRE(families.size() == 2);
  for (const FamilyPrediction& family : families) CHECK(family.refused_runs() == 0);
  const ErrorSet trtllm = *families[0].figure(0), vllm = *families[1].figure(0);
  const auto check = [](const ErrorSet& set, const auto& is_meant, int count, double mean, double signed_mean) {
    int found = 0;
    double sum = 0, signed_sum = 0;
    for (const MeasuredPoint& point : set.points) {
      if (!is_meant(point.id)) continue;
      ++found;
      sum += std::abs(point.error());
      signed_sum += point.error();
    }
    CHECK(found == count);
    CHECK(sum / found == Approx(mean).margin(0.0006));
    CHECK(signed_sum / found == Approx(signed_mean).margin(0.0006));
  };
  const auto has = [](const std::string& id, std::string_view part) { return id.find(part) != std::string::npos; };
  const auto is_dense = [&has](const std::string& id) { return has(id, "-llama-3.") || has(id, "-mistral-"); };
  // The figures of the manual (post-training.md).
  check(trtllm, is_dense, 522, 0.073, 0.0225);
  check(
      trtllm, [&](const std::string& id) { return !is_dense(id); }, 280, 0.141, -0.008);
  check(
      vllm, [](const std::string&) { return true; }, 56, 0.122, -0.071);
  const auto worst = [&has](const ErrorSet& set, std::string_view part, double sign) {
    double most = 0;
    for (const MeasuredPoint& point : set.points)
      if (has(point.id, part)) most = std::max(most, sign * point.error());
    return most;
  };
  CHECK(worst(trtllm, "-mixtral-8x7b-h200-tp8-fp8", -1) == Approx(0.34).margin(0.006));
  CHECK(worst(trtllm, "-rtx-dep", -1) == Approx(0.52).margin(0.006));
  CHECK(worst(trtllm, "-deepseek-v3-h200", 1) == Approx(0.51).margin(0.006));
  CHECK(worst(trtllm, "-llama-4-maverick-h200", 1) == Approx(1.09).margin(0.006));
  CHECK(worst(trtllm, "1.0-qwen3-30b-a3b-gb200", 1) == Approx(0.84).margin(0.006));
  CHECK(worst(vllm, "-llama-3.1-70b-mi300x-tp8-128-2048", -1) == Approx(0.45).margin(0.006));
}

TEST_CASE("impossible engines without a loop are refused with their place", "[post-training]") {
  check_refused({{"plan.mode", "training"}}, "generation: only with plan.mode: inference");
  check_refused({{"generation.tensor_parallel", "4"}}, "generation.tensor_parallel: 4 GPUs an engine");
  check_refused({{"generation.concurrency", "3"}, {"generation.tensor_parallel", "1"}},
                "generation.concurrency: 3 prompts at a time do not divide over 2 engines; nearest: 2 or 4");
  check_refused({{"generation.precision", "bf16"}, {"generation.tensor_parallel", "1"}}, "generation: weights of ");
  check_refused({{"generation.answer_tokens", "{mean: 200000, variation: 0, most: 200000}"}},
                "generation.answer_tokens.most: 200000 tokens after 1000 of a prompt");
  check_refused({{"generation.nodes", "1"}}, "nodes");
  check_refused({{"generation.requests", "0"}}, "generation.requests");
}

}  // namespace scenarios_test_generation
