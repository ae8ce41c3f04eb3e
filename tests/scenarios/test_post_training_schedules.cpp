// Post-training loops beyond the plain ones: asynchrony, cut tails, calls of tools, speculation, engines that spread
// experts, critics and models of rewards.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "models/generation/speculation.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/post_training/asynchrony.hpp"
#include "scenarios/src/running/learn_run.hpp"
#include "scenarios/src/search/loop_search.hpp"
#include "strategies/values/learning/bandit.hpp"
#include "tests/scenarios/loops.hpp"

namespace scenarios_test_post_training_schedules {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::size_t kGroup = 4, kGroups = 64;
constexpr int kEngines = 4;

std::vector<PlannedAnswer> group_answers(double variation) {
  return planned_answers(kGroup * kGroups, variation, kGroup);
}

/// Time of the slowest engine if each has an equal share of the answers.
double batch_time(const std::vector<PlannedAnswer>& answers) {
  double slowest = 0;
  const std::size_t share = answers.size() / kEngines;
  for (std::size_t e = 0; e < kEngines; ++e) {
    const auto begin = answers.begin() + static_cast<std::ptrdiff_t>(e * share);
    const EngineRun run = run_engine(PlainCosts(), {begin, begin + static_cast<std::ptrdiff_t>(share)}, kLimits);
    slowest = std::max(slowest, run.time.value);
  }
  return slowest;
}

AsynchronousLoop plain_loop(double staleness, double half, double variation = 0.8) {
  AsynchronousLoop loop;
  loop.engines = kEngines;
  loop.answers = group_answers(variation);
  loop.groups = kGroups;
  loop.staleness = staleness;
  loop.training_half = Seconds{half};
  loop.weights = Seconds{0.25};
  return loop;
}

AsynchronousRun run_plain(const AsynchronousLoop& loop) { return run_asynchronous(PlainCosts(), kLimits, loop); }

}  // namespace

TEST_CASE("an asynchronous loop without staleness is the synchronous one", "[post-training]") {
  const double generation = batch_time(group_answers(0.8));
  for (const bool partial : {true, false})
    for (const bool by_start : {true, false}) {
      CAPTURE(partial, by_start);
      AsynchronousLoop loop = plain_loop(0, 0.7);
      loop.partial_rollouts = partial;
      loop.by_start = by_start;
      const AsynchronousRun run = run_plain(loop);
      CHECK(run.step.value == Approx(generation + 0.7 + 0.25));
      CHECK(run.waiting.value == Approx(generation));
      CHECK(run.generation.value == Approx(generation));
      CHECK(run.most_staleness == 0);
      CHECK(run.mixed_share == 0);
    }
}

TEST_CASE("a loop that training limits takes as long as its training half and the weights, like a one-step-off loop",
          "[post-training]") {
  const std::vector<PlannedAnswer> answers = group_answers(0.8);
  double tokens = 0;
  for (const PlannedAnswer& answer : answers) tokens += answer.tokens;
  const double half = 10 * batch_time(answers);
  for (const double staleness : {1.0, 2.0, 3.0}) {
    CAPTURE(staleness);
    const AsynchronousRun run = run_plain(plain_loop(staleness, half));
    CHECK(run.step.value == Approx(half + 0.25));
    CHECK(run.waiting.value == Approx(0).margin(1e-9));
    CHECK(run.mean_staleness == Approx(staleness));
    CHECK(run.engines.tokens == Approx(tokens));
  }
}

TEST_CASE("the step of an asynchronous loop is the sum of waiting, training half and weights", "[post-training]") {
  const double generation = batch_time(group_answers(0.8));
  for (const bool partial : {true, false})
    for (const double staleness : {0.0, 0.5, 1.0, 2.0})
      for (const double share : {0.1, 0.5, 1.0}) {
        CAPTURE(partial, staleness, share);
        AsynchronousLoop loop = plain_loop(staleness, share * generation);
        loop.partial_rollouts = partial;
        const AsynchronousRun run = run_plain(loop);
        CHECK(run.step.value == Approx(run.waiting.value + share * generation + 0.25));
        CHECK(run.generation.value >= run.waiting.value * (1 - 1e-9));
        CHECK(run.busy_share > 0);
        CHECK(run.busy_share <= 1);
        CHECK(run.step.value <= (generation + share * generation + 0.25) * (1 + 1e-9));
        if (!partial) CHECK(run.mixed_share == 0);
      }
  CHECK(run_plain(plain_loop(1, generation)).step.value < 0.9 * run_plain(plain_loop(0, generation)).step.value);
  CHECK(run_plain(plain_loop(1, 0.1 * generation)).mixed_share > 0);
}

TEST_CASE("a faster training half makes a loop slower only if more sequences slow a decode step", "[post-training]") {
  /// A decode step takes as long with one sequence as with all, and prompts take no time.
  struct EqualSteps : PlainCosts {
    DecodeTime decode(int, double) const override { return {Seconds{0.01}, {}, {}, {}}; }
    Seconds prefill(const PromptTokens&) const override { return {}; }
  };
  const double generation = batch_time(group_answers(0.8));
  int slower = 0;
  for (const double variation : {0.3, 0.8, 1.5})
    for (const double staleness : {0.5, 1.0, 2.0})
      for (const bool by_start : {false, true})
        for (const bool partial : {false, true}) {
          double equal = 0, plain = 0;  // the longest steps of the faster halves until now
          for (const double share : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4}) {
            CAPTURE(variation, staleness, by_start, partial, share);
            AsynchronousLoop loop = plain_loop(staleness, share * generation, variation);
            loop.by_start = by_start;
            loop.partial_rollouts = partial;
            const double plain_step = run_plain(loop).step.value;
            if (plain > plain_step * (1 + 1e-6)) ++slower;
            plain = std::max(plain, plain_step);
            loop.training_half = Seconds{share * 900 * 0.01};
            const double step = run_asynchronous(EqualSteps(), kLimits, loop).step.value;
            CHECK(step >= equal - 16 * 0.01);  // engines stop at the end of a part of up to 16 decode steps
            equal = std::max(equal, step);
          }
        }
  CHECK(slower > 0);
}

TEST_CASE("answers that are trained on as they start are never staler than the bound", "[post-training]") {
  const double generation = batch_time(group_answers(1.5));
  for (const double staleness : {0.0, 0.5, 1.0, 2.0}) {
    CAPTURE(staleness);
    AsynchronousLoop loop = plain_loop(staleness, 0.3 * generation, 1.5);
    loop.by_start = true;
    const AsynchronousRun run = run_plain(loop);
    CHECK(run.most_staleness <= static_cast<int>(std::ceil(staleness)));
    CHECK(run.mean_staleness <= staleness + 1e-9);
  }
  // If training takes answers as they end, a long one may be staler, as the report says.
  CHECK(run_plain(plain_loop(1, 0.1 * generation, 1.5)).most_staleness > 1);
}

TEST_CASE("a small policy learns with the staleness of the loop, and clipped ratios cost steps",
          "[post-training][learn]") {
  Overrides overrides{
      {"post_training.generation.nodes", "1"},
      {"post_training.schedule", "asynchronous"},
      {"post_training.prompts", "16"},
      {"post_training.samples_per_prompt", "16"},
      {"plan.global_batch_size", "64"},
      {"learn", "{task: bandit, contexts: 16, steps: 400, evaluate_every: 1, target: {accuracy: 0.5}}"}};
  const auto learned = [&](const char* staleness) {
    Overrides all = overrides;
    all.emplace_back("post_training.staleness", staleness);
    return learn(loop_scenario(all));
  };
  const LearnResult fresh = learned("0"), stale = learned("4");
  CHECK(fresh.mean_staleness == 0);
  CHECK(stale.mean_staleness > 2);
  REQUIRE(fresh.reached);
  REQUIRE(stale.reached);
  CHECK(fresh.points.front().accuracy == Approx(1.0 / 16));
  CHECK(stale.reached->steps > 1.1 * fresh.reached->steps);
  CHECK(stale.step_time().value < fresh.step_time().value);
  CHECK(learned("4").reached->steps == stale.reached->steps);  // another run takes as many steps
  CHECK_THROWS_WITH(loop_scenario({{"learn", "{task: mlp}"}}), Contains("expected bandit"));
  CHECK_THROWS_WITH(read_scenario(scenario_file("learn-workers"), {{"learn", "{task: bandit}"}}),
                    Contains("expected post_training"));
}

TEST_CASE("answers without staleness train by their own policy", "[post-training][learn]") {
  const BanditChoice choice{8, 4, 1, 0.2};
  BanditPolicy policy(choice, 1);
  const double before = policy.regret();
  const std::vector<int> fresh(32, 0);
  policy.train(fresh, 16, 1);  // one update: every ratio is 1
  CHECK(policy.clipped_share() == 0);
  for (int step = 0; step < 100; ++step) policy.train(fresh, 16, 4);
  CHECK(policy.regret() < 0.2 * before);
  CHECK(policy.accuracy() > 0.5);
}

TEST_CASE("new answers level the engines", "[post-training]") {
  CHECK(levelled_shares({0, 0}, 5) == std::vector<std::size_t>{3, 2});
  CHECK(levelled_shares({3, 0, 1}, 5) == std::vector<std::size_t>{0, 3, 2});
  CHECK(levelled_shares({3, 0, 1}, 0) == std::vector<std::size_t>{0, 0, 0});
}

TEST_CASE("an answer waits for its calls, and calls wait for sandboxes", "[post-training]") {
  const PlainCosts costs;
  EngineLimits limits = kLimits;
  limits.call_tokens = 50;
  const std::vector<Seconds> calls(4, Seconds{2});
  const EngineRun run = run_engine(costs, {{0, 500, calls}}, limits);
  CHECK(run.time.value == Approx(100e-6 + 495 * 1.1e-3 + 4 * (2 + 50e-6)).epsilon(1e-12));
  CHECK(run.call_wait.value == Approx(8));
  CHECK(run.cache_peak.value == 100 + 500 + 4 * 50);
  CHECK(run.tokens == 500);

  limits.call_tokens = 0;
  limits.sandboxes = 1;
  const std::vector<PlannedAnswer> two(2, {0, 200, {Seconds{10}}});
  CHECK(run_engine(costs, two, limits).time.value == Approx(100e-6 + 99 * 1.2e-3 + 20 + 100 * 1.1e-3));
  limits.sandboxes = 2;
  CHECK(run_engine(costs, two, limits).time.value == Approx(100e-6 + 99 * 1.2e-3 + 10 + 100 * 1.2e-3));
  limits.sandboxes = 23;  // on 16 engines: two for seven of them
  int all = 0;
  for (std::size_t engine = 0; engine < 16; ++engine) {
    const int sandboxes = limits_of_engine(limits, engine, 16).sandboxes;
    CHECK(sandboxes == (engine < 7 ? 2 : 1));
    all += sandboxes;
  }
  CHECK(all == 23);
  // An answer of one token makes no call.
  CHECK(run_engine(costs, {{0, 1, calls}}, limits).call_wait.value == 0);
}

TEST_CASE("answers with calls all end within the room of the cache", "[post-training]") {
  PlainCosts costs;
  EngineLimits limits = kLimits;
  limits.call_tokens = 20;
  limits.sandboxes = 8;
  std::vector<PlannedAnswer> answers = group_answers(0.8);
  double tokens = 0;
  for (PlannedAnswer& answer : answers) {
    answer.calls = {Seconds{0.3}, Seconds{0.1}};
    tokens += answer.tokens;
  }
  for (const double room : {1100.0, 4000.0, 1e9}) {
    CAPTURE(room);
    costs.bytes = Bytes{room};
    const EngineRun run = run_engine(costs, answers, limits);
    CHECK(run.tokens == tokens);
    CHECK(run.cache_peak.value <= room);
    CHECK(*std::ranges::min_element(run.ends) > Seconds{});
    CHECK((run.prefill + run.decode.sum() + run.call_wait).value == Approx(run.time.value));
    if (room == 1e9) CHECK(run.preemptions == 0);
  }
}

TEST_CASE("tools without time and results change nothing, and others lengthen answers", "[post-training]") {
  const PostTrainingResult plain = simulated_loop();
  const PostTrainingResult with_instant_tools = simulated_loop({{"post_training.tools", "{calls: 3, wait: 0 s}"}});
  CHECK(with_instant_tools.step_time.value == plain.step_time.value);
  CHECK(with_instant_tools.parts.calls.value == 0);
  const PostTrainingResult with_slow_tools = simulated_loop({{"post_training.tools", "{calls: 2, wait: 3 s}"}});
  CHECK(with_slow_tools.generation.value > plain.generation.value);
  CHECK(with_slow_tools.training.value == plain.training.value);
  const Overrides results{{"post_training.tools", "{calls: 1, wait: 0 s, tokens: 200}"},
                          {"post_training.answer_tokens.most", "3700"}};
  CHECK(simulated_loop(results).training.value > plain.training.value);
}

TEST_CASE("a cut tail ends generation with the prompts that a step trains on", "[post-training]") {
  const Overrides wide{{"post_training.answer_tokens.variation", "1"}};
  Overrides trained_prompts = wide, more_started = wide, more_prompts = wide;
  trained_prompts.emplace_back("post_training.started_prompts", "64");
  more_started.emplace_back("post_training.started_prompts", "80");
  more_prompts.emplace_back("post_training.prompts", "80");
  const PostTrainingResult plain = simulated_loop(wide), with_80_prompts = simulated_loop(more_prompts),
                           with_cut_tail = simulated_loop(more_started);
  CHECK(simulated_loop(trained_prompts).step_time.value == plain.step_time.value);
  CHECK(plain.lost_answers == 0);
  CHECK(plain.lost_tokens == 0);
  CHECK(with_cut_tail.lost_answers == 16 * 32);
  CHECK(with_cut_tail.lost_tokens > 0);
  CHECK(with_cut_tail.generation.value < with_80_prompts.generation.value);
  CHECK(with_cut_tail.mean_answer < with_80_prompts.mean_answer);
  CHECK(with_cut_tail.summed_parts().value == with_cut_tail.step_time.value);
}

TEST_CASE("a pass with drafted tokens has the tokens of the closed form", "[post-training]") {
  for (const double a : {0.3, 0.7, 0.99})
    for (const int k : {0, 1, 3, 7}) {
      CAPTURE(a, k);
      CHECK(Speculation{k, a, {}}.tokens_of_pass() == Approx((1 - std::pow(a, k + 1)) / (1 - a)));
    }
  CHECK(Speculation{5, 0, {}}.tokens_of_pass() == 1);
  CHECK(Speculation{5, 1, {}}.tokens_of_pass() == 6);
}

TEST_CASE("speculation without drafted tokens changes nothing; accepted tokens are faster, refused ones slower",
          "[post-training]") {
  const auto speculation = [](const std::string& keys) {
    return std::pair<std::string, std::string>{"post_training.generation.speculation", keys};
  };
  const PostTrainingResult plain = simulated_loop();
  CHECK(simulated_loop({speculation("{tokens: 0, acceptance: 0.5}")}).generation.value == plain.generation.value);
  const PostTrainingResult refused = simulated_loop({speculation("{tokens: 2, acceptance: 0}")}),
                           accepted = simulated_loop({speculation("{tokens: 2, acceptance: 0.8}")});
  CHECK(refused.generation.value > plain.generation.value);
  CHECK(refused.tokens_of_pass == 1);
  CHECK(accepted.generation.value < refused.generation.value);
  CHECK(accepted.memory.weights.value > plain.memory.weights.value);
  CHECK(accepted.memory.cache.value < plain.memory.cache.value);
  // One sequence an engine: the weights are read once for all drafted tokens.
  const Overrides one_sequence{
      {"post_training.prompts", "1"}, {"post_training.samples_per_prompt", "16"}, {"plan.global_batch_size", "16"}};
  for (const char* draft : {"mtp", "llama-3.2-1b"}) {
    CAPTURE(draft);
    Overrides drafted = one_sequence;
    drafted.push_back(speculation(std::string("{tokens: 3, acceptance: 0.9, draft: ") + draft + "}"));
    CHECK(simulated_loop(drafted).generation.value < simulated_loop(one_sequence).generation.value);
  }
}

TEST_CASE("GPUs that share experts hold parts of them, and sequences of their own", "[post-training]") {
  const Catalog catalog;
  const Scenario s = loop_scenario({});
  const NetworkEntry model = read_network_entry(catalog.resolve("network", Node::scalar_node("qwen3-30b-a3b")));
  const auto costs_of = [&](int expert) {
    return DecodeCosts(
        model, s.post_training->engine, s.post_training->generators.node.gpu,
        EngineLayout{.data = expert, .expert = expert, .memory_share = 0.9}, [](Bytes) { return Seconds{}; },
        [](Bytes) { return Seconds{1e-5}; });
  };
  const DecodeCosts one_gpu = costs_of(1), two_gpus = costs_of(2), eight_gpus = costs_of(8);
  CHECK((one_gpu.weights() - eight_gpus.weights()).value ==
        Approx(1.75 * (one_gpu.weights() - two_gpus.weights()).value));
  CHECK(eight_gpus.weights() > one_gpu.weights() / 8);
  CHECK(eight_gpus.cache(1000).value == Approx(one_gpu.cache(1000).value / 8));
  CHECK(eight_gpus.decode(64 * 8, 500).cache.value == Approx(one_gpu.decode(64, 500).cache.value));
  CHECK(one_gpu.decode(64, 500).exchanges.value == 0);
  CHECK(eight_gpus.decode(64, 500).exchanges.value > 0);
  CHECK(eight_gpus.decode(64, 500).sum() < one_gpu.decode(64, 500).sum());
}

TEST_CASE("a critic trains and computes values as the policy does, and a reward takes a pass", "[post-training]") {
  const PostTrainingResult plain = simulated_loop();
  CHECK(plain.critic.value == 0);
  const PostTrainingResult with_critic = simulated_loop({{"post_training.critic", "{}"}});
  CHECK(with_critic.training.value == Approx(2 * plain.training.value));
  // The policy takes two passes, and the critic takes one for its values.
  CHECK(with_critic.log_probabilities.value == Approx(1.5 * plain.log_probabilities.value));
  CHECK(with_critic.critic.value == Approx(plain.training.value + plain.log_probabilities.value / 2));
  CHECK(with_critic.critic_states.value > 0);
  CHECK(with_critic.critic_peak.value > with_critic.critic_states.value);
  CHECK(with_critic.generation.value == plain.generation.value);
  const PostTrainingResult with_smaller_critic = simulated_loop({{"post_training.critic", "{model: llama-3.2-1b}"}});
  CHECK(with_smaller_critic.critic.value < with_critic.critic.value);
  CHECK(with_smaller_critic.critic_states.value < with_critic.critic_states.value);
  const PostTrainingResult with_reward = simulated_loop({{"post_training.reward", "{}"}});
  CHECK(with_reward.reward.value == Approx(plain.log_probabilities.value / 2));
  CHECK(with_reward.summed_parts().value == with_reward.step_time.value);
}

TEST_CASE("an asynchronous scenario without staleness takes as long as a synchronous one, and with staleness less",
          "[post-training]") {
  const Overrides separate_nodes{{"post_training.generation.nodes", "1"}};
  Overrides fresh = separate_nodes, stale = separate_nodes;
  for (Overrides* overrides : {&fresh, &stale}) overrides->emplace_back("post_training.schedule", "asynchronous");
  fresh.emplace_back("post_training.staleness", "0");
  stale.emplace_back("post_training.staleness", "2");
  const PostTrainingResult synchronous = simulated_loop(separate_nodes), without_staleness = simulated_loop(fresh),
                           with_staleness = simulated_loop(stale);
  CHECK(without_staleness.step_time.value == Approx(synchronous.step_time.value));
  CHECK(without_staleness.generation.value == Approx(synchronous.generation.value));
  CHECK(without_staleness.idle_engines == Approx(synchronous.idle_engines));
  CHECK(without_staleness.most_staleness == 0);
  CHECK(with_staleness.step_time.value < without_staleness.step_time.value);
  CHECK(with_staleness.summed_parts().value == Approx(with_staleness.step_time.value));
  CHECK(with_staleness.mean_staleness > 0);
}

TEST_CASE("a search compares the placements of a loop, and finds the fewest nodes for the wanted samples per second",
          "[post-training]") {
  const Scenario s = loop_scenario({{"prices", "{currency: EUR, gpu_hour: {h100-sxm5-80gb: 2}}"}});
  const PostTrainingResult own_result = simulated_loop();
  const LoopAnswer fastest = search_loops(s, {});
  REQUIRE(fastest.best() != nullptr);
  // Generation on all nodes, or on one of two, with or without the other; engines of 1 or 2 GPUs.
  CHECK(fastest.rows.size() == 6);
  bool has_own = false;
  for (const LoopRow& r : fastest.rows) {
    CAPTURE(r.generation_nodes, r.engine_gpus, r.error);
    REQUIRE(r.error.empty());
    CHECK(r.nodes == 2);
    CHECK(r.schedule == "synchronous");  // no placement is staler than the scenario's
    CHECK(r.step_time >= fastest.best()->step_time);
    CHECK(r.hour == Approx(2 * r.gpus));
    CHECK(r.million == Approx(r.hour / 3600 / r.samples_per_s * 1e6));
    if (r.generation_nodes == 0 && r.engine_gpus == 1) {
      CHECK(r.step_time == Approx(own_result.step_time.value));
      has_own = true;
    }
  }
  CHECK(has_own);

  const double wanted_rate = 1.2 * fastest.best()->samples_per_s;
  const LoopAnswer fewest_answer = search_loops(s, {wanted_rate, 0});
  REQUIRE(fewest_answer.best() != nullptr);
  CHECK(fewest_answer.best()->samples_per_s >= wanted_rate);
  CHECK(fewest_answer.best()->nodes > 1);
  for (const LoopRow& r : fewest_answer.rows) CHECK((r.nodes >= fewest_answer.best()->nodes || !r.meets));
  const std::vector<LoopFewest> fewest = fewest_answer.fewest();
  REQUIRE(fewest.size() == 1);
  CHECK(fewest[0].row->nodes == fewest_answer.best()->nodes);
  REQUIRE(fewest[0].next_smaller != nullptr);
  CHECK(fewest[0].next_smaller->nodes == fewest[0].row->nodes - 1);  // the numbers between are bisected
  CHECK(search_loops(s, {1e9, 1}).best() == nullptr);
  CHECK_THROWS_WITH(search_loops(read_scenario(scenario_file("mixtral-ep8"), Overrides{}), {}),
                    Contains("missing key post_training"));
}

TEST_CASE("types of node are compared by rent, and a larger probability needs more samples", "[post-training]") {
  const Scenario s = loop_scenario({{"prices", "{currency: EUR, gpu_hour: {h100-sxm5-80gb: 2, h200-sxm-141gb: 1}}"},
                                    {"post_training.prompts", "16"}});
  const std::vector<std::string> types{"dgx-h100", "dgx-h200"};
  const LoopAnswer likely_answer = search_loops(s, {8, 0, types}), sure_answer = search_loops(s, {8, 0, types, 0.9});
  REQUIRE(likely_answer.best() != nullptr);
  CHECK(likely_answer.best()->node == "dgx-h200");  // half the price, and no slower
  CHECK(likely_answer.fewest().size() == 2);
  REQUIRE(sure_answer.best() != nullptr);
  CHECK(sure_answer.best()->samples_per_s > 8 * 1.2);
  CHECK(sure_answer.best()->likely_samples->at(0) == Approx(sure_answer.best()->samples_per_s / 1.187).epsilon(0.005));
  CHECK(sure_answer.best()->hour >= likely_answer.best()->hour);
  CHECK_THROWS_WITH(search_loops(s, {8, 0, {"dgx-h10"}}), Contains("dgx-h100"));
}

TEST_CASE("impossible schedules, engines and tools are refused with the nearest value", "[post-training]") {
  const std::pair<std::string, std::string> asynchronous{"post_training.schedule", "asynchronous"},
      nodes{"post_training.generation.nodes", "1"};
  check_loop_refused({{"post_training.staleness", "1"}}, "with post_training.schedule: asynchronous only");
  check_loop_refused({asynchronous}, "asynchronous needs GPUs that only generate");
  check_loop_refused({asynchronous, nodes, {"post_training.started_prompts", "80"}},
                     "expected 64, or another schedule");
  check_loop_refused({{"post_training.started_prompts", "60"}}, "started_prompts");
  check_loop_refused({{"post_training.tools", "{calls: 1, wait: 1 s, sandboxes: 3}"}}, "nearest: 16");
  check_loop_refused({{"post_training.tools", "{calls: 1, wait: 1 s, tokens: 10}"}}, "answer_tokens.most: 3976");
  check_loop_refused({{"post_training.generation.expert_parallel", "2"}}, "has no experts; expected 1");
  check_loop_refused(
      {{"post_training.generation.expert_parallel", "3"}, {"post_training.generation.tensor_parallel", "2"}},
      "3 parts are no multiple of the 2 GPUs of tensor_parallel; nearest: 2 or 4");
  check_loop_refused({{"post_training.generation.speculation", "{tokens: 2, acceptance: 2}"}}, "acceptance");
  check_loop_refused({{"post_training.critic", "{modl: gpt2}"}}, "modl");
}

}  // namespace scenarios_test_post_training_schedules
