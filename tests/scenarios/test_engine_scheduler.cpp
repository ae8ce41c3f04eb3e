// The scheduler of an engine: chunks of prompts beside decoding, shared prefixes, and CUDA graphs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "tests/scenarios/loops.hpp"

namespace scenarios_test_engine_scheduler {

using namespace trainyard;
using namespace trainyard::test;

namespace {

EngineLimits with_chunk(double tokens) {
  EngineLimits limits = kLimits;
  limits.chunk = tokens;
  return limits;
}

double sum_of(const std::vector<PlannedAnswer>& answers) {
  double sum = 0;
  for (const PlannedAnswer& answer : answers) sum += answer.tokens;
  return sum;
}

}  // namespace

TEST_CASE("prompts that fit into one chunk take as long as without chunks while nothing decodes", "[post-training]") {
  const PlainCosts costs;
  const std::vector<PlannedAnswer> answers = planned_answers(120, 0.5);
  const EngineRun plain = run_engine(costs, answers, kLimits);
  for (const double chunk : {30 * 100.0, 1e5}) {
    CAPTURE(chunk);
    const EngineRun run = run_engine(costs, answers, with_chunk(chunk));
    CHECK(run.time.value == Approx(plain.time.value).epsilon(1e-12));
    CHECK(run.prefill.value == Approx(plain.prefill.value).epsilon(1e-12));
    CHECK(run.steps == plain.steps);
    for (std::size_t i = 0; i < answers.size(); ++i) CHECK(run.ends[i].value == Approx(plain.ends[i].value));
  }
}

TEST_CASE("chunks of any size lose no token, keep within the cache, and take all time of the engine",
          "[post-training]") {
  PlainCosts costs;
  std::vector<PlannedAnswer> answers = planned_answers(200, 0.8);
  for (std::size_t i = 0; i < answers.size(); i += 3) answers[i].calls = {Seconds{0.05}, Seconds{0.2}};
  for (const double chunk : {7.0, 64.0, 500.0, 16384.0})
    for (const double room : {1500.0, 4000.0, 1e9}) {
      CAPTURE(chunk, room);
      costs.bytes = Bytes{room};
      EngineLimits limits = with_chunk(chunk);
      limits.call_tokens = 10;
      const EngineRun run = run_engine(costs, answers, limits);
      CHECK(run.tokens == sum_of(answers));
      CHECK(run.cache_peak.value <= room);
      CHECK(*std::ranges::min_element(run.ends) > Seconds{});
      CHECK((run.busy() + run.call_wait).value == Approx(run.time.value).epsilon(1e-9));
      for (std::size_t i = 0; i < answers.size(); ++i) {
        CHECK(run.first_tokens[i] > run.starts[i]);
        CHECK(run.first_tokens[i] <= run.ends[i]);
      }
    }
}

TEST_CASE("answers decode while the prompt of another one is computed in chunks", "[post-training]") {
  const PlainCosts costs;
  // The second answer is admitted when the first of three ends; two of them decode beside its chunks.
  EngineLimits limits = with_chunk(12);
  limits.most_sequences = 2;
  const std::vector<PlannedAnswer> answers{{0, 100}, {0, 10}, {1, 50}};
  const EngineRun run = run_engine(costs, answers, limits);
  // Ten chunks of 12 tokens less the decoded one: 11 tokens beside one answer, 100 in ten steps.
  CHECK((run.first_tokens[2] - run.starts[2]).value == Approx(100e-6 + 10 * 1.1e-3));
  limits.chunk = 0;
  const EngineRun plain = run_engine(costs, answers, limits);
  CHECK((plain.first_tokens[2] - plain.starts[2]).value == Approx(100e-6));
}

TEST_CASE("a chunk beside decoding costs less than a pass of its own, and many chunks more than one",
          "[post-training]") {
  const Scenario s = loop_scenario();
  const EngineCosts costs = generation_costs(*s.post_training, s.model.entry);
  const GenerationCosts& prices = *costs.prices;
  for (const double tokens : {64.0, 512.0, 4096.0}) {
    CAPTURE(tokens);
    const PromptTokens alone{tokens, tokens, 0};
    CHECK(prices.prefill_beside(0, alone) == prices.prefill(alone));
    CHECK(prices.prefill_beside(64, alone) < prices.prefill(alone));
    CHECK(prices.prefill_beside(64, alone) > Seconds{});
    CHECK(prices.prefill_beside(64, {tokens, tokens, 4096}) > prices.prefill_beside(64, alone));
  }
  CHECK(simulated_loop({{"post_training.generation.chunked_prefill", "64"}}).parts.prefill.value >
        simulated_loop().parts.prefill.value);
}

TEST_CASE("answers share the prefix of their prompt, unless the engine does not share or each prompt has one answer",
          "[post-training]") {
  const char* const key = "post_training.generation.prefix_sharing";
  const PostTrainingResult shares = simulated_loop(), apart = simulated_loop({{key, "false"}});
  CHECK(apart.parts.prefill.value > 5 * shares.parts.prefill.value);
  CHECK(apart.memory.cache_peak > shares.memory.cache_peak);
  Overrides single{{"post_training.prompts", "512"}, {"post_training.samples_per_prompt", "1"}};
  const PostTrainingResult one = simulated_loop(single);
  single.emplace_back(key, "false");
  const PostTrainingResult one_apart = simulated_loop(single);
  CHECK(one.generation.value == one_apart.generation.value);
  CHECK(one.memory.cache_peak == one_apart.memory.cache_peak);
  single.insert(single.end(), {{"post_training.generation.nodes", "1"}, {"post_training.schedule", "asynchronous"}});
  const PostTrainingResult asynchronous_apart = simulated_loop(single);
  single[2].second = "true";
  CHECK(simulated_loop(single).step_time.value == asynchronous_apart.step_time.value);
}

TEST_CASE("without CUDA graphs the host launches each kernel, and the GPU waits for slow launches", "[post-training]") {
  const auto step = [](const Overrides& overrides, int batch) {
    const Scenario s = loop_scenario(overrides);
    return generation_costs(*s.post_training, s.model.entry).prices->decode(batch, 500);
  };
  const char* const key = "post_training.generation.cuda_graphs";
  const Overrides split{{"post_training.generation.tensor_parallel", "4"}};
  Overrides split_eager = split;
  split_eager.emplace_back(key, "false");
  const DecodeTime graphs = step(split, 8), eager = step(split_eager, 8);
  CHECK(eager.products == graphs.products);
  CHECK(eager.sum() > graphs.sum());
  // A pass of so many kernels takes as long as their launches, besides the engine's own host time.
  const Overrides slow{{"post_training.generation.engine", "{base: vllm, kernel_launch: 1 ms}"}, {key, "false"}};
  const DecodeTime launched = step(slow, 8);
  const double launches = (launched.sum() - step({}, 8).host).value / 1e-3;
  CHECK(launches == Approx(std::round(launches)));
  CHECK(launches > 32 * 5);
  CHECK(launches < 32 * 20);
  // Launches that the GPU hides change nothing, and a batch is not rounded up.
  const Overrides quick{{"post_training.generation.engine", "{base: vllm, kernel_launch: 0 us}"}, {key, "false"}};
  CHECK(step(quick, 8).sum() == step({}, 8).sum());
  CHECK(step(quick, 9).host == step({}, 9).host);
  CHECK(step(quick, 9).products <= step({}, 9).products);
  CHECK(simulated_loop(split_eager).generation.value > simulated_loop(split).generation.value);
}

TEST_CASE("the mean since an earlier run has each sum that was added to it", "[post-training]") {
  EngineRun run, more;
  double number = 1;
  for (Seconds* time : {&more.time, &more.prefill, &more.call_wait, &more.decode.products, &more.decode.cache,
                        &more.decode.exchanges, &more.decode.host, &more.call_time, &more.recomputed})
    time->value = number *= 2;  // sums and quotients of powers of two are exact
  for (double* sum : {&more.tokens, &more.prefill_tokens, &more.steps, &more.token_seconds}) *sum = number *= 2;
  more.preemptions = 3;
  more.refusals = 5;
  run.add(more);
  EngineRun later = run;
  later.add(more);
  later.add(more);
  const EngineRun mean = later.mean_since(run, 2);
  for (const auto time :
       {&EngineRun::time, &EngineRun::prefill, &EngineRun::call_wait, &EngineRun::call_time, &EngineRun::recomputed})
    CHECK(mean.*time == more.*time);
  for (const auto part : {&DecodeTime::products, &DecodeTime::cache, &DecodeTime::exchanges, &DecodeTime::host})
    CHECK(mean.decode.*part == more.decode.*part);
  for (const auto sum : {&EngineRun::tokens, &EngineRun::prefill_tokens, &EngineRun::steps, &EngineRun::token_seconds})
    CHECK(mean.*sum == more.*sum);
  for (const auto count : {&EngineRun::preemptions, &EngineRun::refusals}) CHECK(mean.*count == 2 * (more.*count));
}

TEST_CASE("chunks and engines have the defaults of their releases", "[post-training]") {
  const Engine vllm = loop_scenario().post_training->engine,
               sglang = loop_scenario({{"post_training.generation.engine", "sglang"}}).post_training->engine;
  CHECK(vllm.chunked_prefill == 16384);
  CHECK(sglang.chunked_prefill == 0);
  CHECK(sglang.most_prefill_tokens == 8192);
  CHECK(vllm.prefix_sharing);
  CHECK(sglang.prefix_sharing);
  CHECK(vllm.cuda_graphs);
  CHECK(sglang.cuda_graphs);
}

TEST_CASE("an engine that reserves whole answers never takes a cache back, and runs fewer at once", "[post-training]") {
  PlainCosts costs;
  costs.bytes = Bytes{4000};
  const std::vector<PlannedAnswer> answers = planned_answers(200, 0.8);
  EngineLimits limits = with_chunk(500);
  const EngineRun plain = run_engine(costs, answers, limits);
  CHECK(plain.preemptions > 0);
  limits.whole_answer = 100 + 900;
  const EngineRun reserves = run_engine(costs, answers, limits);
  CHECK(reserves.preemptions == 0);
  CHECK(reserves.tokens == sum_of(answers));
  CHECK(reserves.cache_peak <= plain.cache_peak);
  CHECK(reserves.steps > plain.steps);
  // With room for all answers there is no difference.
  costs.bytes = Bytes{1e9};
  CHECK(run_engine(costs, answers, limits).time == run_engine(costs, answers, with_chunk(500)).time);
}

TEST_CASE("TensorRT-LLM takes its share of the memory that weights leave, and is named as unmeasured",
          "[post-training]") {
  const Overrides trtllm{{"post_training.generation.engine", "trtllm"}};
  Overrides whole_answers = trtllm;
  whole_answers.emplace_back("post_training.generation.memory_share", "1");
  const PostTrainingResult::EngineMemory part = simulated_loop(trtllm).memory,
                                         all = simulated_loop(whole_answers).memory;
  CHECK(part.cache.value == Approx(0.6 * all.cache.value));
  CHECK(part.weights + part.reserved + part.cache == part.capacity);
  CHECK(all.capacity.value == Approx(loop_scenario().cluster.node.gpu.usable_memory().value));
  CHECK(simulated_loop(trtllm).preemptions == 0);
  CHECK(unmeasured_loop_parts(loop_scenario(trtllm)) == "the engine trtllm");
}

TEST_CASE("prompts of a pass do not read each other, and their tokens read those that the cache has",
          "[post-training]") {
  const Scenario s = loop_scenario();
  const EngineCosts costs = generation_costs(*s.post_training, s.model.entry);
  const auto time = [&](double count, double length, double before) {
    return costs.prices->prefill({count, length, before}).value;
  };
  // Attention of one sequence of 8,192 tokens has 8 times the pairs of 8 sequences; all other kernels have the same rows.
  const double one_sequence = time(8192, 8192, 0), eighths = time(8192, 1024, 0);
  CHECK(eighths < 0.95 * one_sequence);
  CHECK(time(8192, 512, 0) < eighths);
  CHECK(time(8192, 1024, 4096) > eighths);
  EngineLimits limits = kLimits;
  limits.prompt_tokens = 1024;
  const std::vector<PlannedAnswer> answers{{0, 2}, {1, 2}, {2, 2}, {3, 2}};
  CHECK(run_engine(*costs.prices, answers, limits).prefill.value == Approx(time(4096, 1024, 0)));
  limits.chunk = 4096;
  CHECK(run_engine(*costs.prices, answers, limits).prefill.value == Approx(time(4096, 1024, 0)));
}

TEST_CASE("the library of collectives reduces tensors that are too large for the engine's own all-reduce",
          "[post-training]") {
  const Scenario s = loop_scenario({{"post_training.generation.tensor_parallel", "2"}});
  PostTrainingChoice choice = *s.post_training;
  const auto prefill = [&](double tokens, Bytes most) {
    for (auto& [architecture, kernels] : choice.engine.kernels) kernels.all_reduce_most = most;
    return generation_costs(choice, s.model.entry).prices->prefill({tokens, tokens, 0});
  };
  const Bytes shipped{8e6}, all{1e15};  // a token has 8 KiB
  CHECK(prefill(512, shipped) == prefill(512, all));
  CHECK(prefill(8192, shipped) < prefill(8192, all));
}

}  // namespace scenarios_test_engine_scheduler
