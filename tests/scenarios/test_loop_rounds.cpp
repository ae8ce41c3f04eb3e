// Loops that sample in rounds, loops whose new weights go through a store, and what the pools of GPUs of a loop do.
#include "scenarios/src/reading/read_post_training.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "tests/scenarios/loops.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_loop_rounds {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

Overrides with_rounds(const std::string& rounds, const Overrides& further = {}) {
  Overrides all{{"post_training.algorithm", "dapo"},
                {"post_training.prompts", "32"},
                {"post_training.dynamic_sampling", rounds},
                {"plan.global_batch_size", "256"}};
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

const Overrides kApart{{"post_training.generation.nodes", "1"}};

}  // namespace

TEST_CASE("dynamic sampling generates rounds of prompts until enough have answers that differ in reward",
          "[post-training]") {
  const Overrides equal_lengths{{"post_training.answer_tokens.variation", "0"}};
  const PostTrainingResult once = simulated_loop(with_rounds("{useful: 1}", equal_lengths)),
                           plain = simulated_loop(with_rounds("null", equal_lengths)),
                           rounds = simulated_loop(with_rounds("{useful: 0.3}", equal_lengths));
  CHECK(once.step_time == plain.step_time);
  CHECK(once.rounds == 1);
  CHECK(once.lost_answers == 0);
  // With 3 of 10 prompts useful, 32 of them take about 107 prompts: 4 rounds of 32.
  CHECK(rounds.rounds >= 3);
  CHECK(rounds.rounds <= 5);
  CHECK(rounds.generation.value == Approx(rounds.rounds * once.generation.value));
  CHECK(rounds.lost_answers == (rounds.rounds - 1) * 32 * 32);
  CHECK(rounds.lost_tokens == Approx(rounds.lost_answers * rounds.mean_answer));
  CHECK(rounds.training == once.training);
  CHECK(rounds.parts.products.value == Approx(rounds.rounds * once.parts.products.value));
  // A larger round ends earlier than several small ones, because each has a tail of its own.
  const PostTrainingResult small = simulated_loop(with_rounds("{useful: 0.3, prompts: 16}")),
                           large = simulated_loop(with_rounds("{useful: 0.3, prompts: 128}"));
  CHECK(small.rounds > large.rounds);
  CHECK(large.rounds == 1);
  CHECK(large.generation < small.generation);
}

TEST_CASE("the screen of a loop with rounds and a store names them, and no measured loop has them", "[post-training]") {
  const Scenario s = loop_scenario(with_rounds("{useful: 0.3}", {{"post_training.weights_storage", "lustre-fsx-200"},
                                                                 {"post_training.overlong_filtering", "true"}}));
  Result r = simulate_here(s, {.critical_path = false});
  add_loop_interval(s, *r.post_training);
  std::string text;
  for (const char c : post_training_screen(s, r)) {
    if (c != '\n' && c != ' ') text += c;
    if ((c == '\n' || c == ' ') && !text.ends_with(' ')) text += ' ';
  }
  CHECK_THAT(text, Contains("of 32 prompts until 32 have answers that differ in reward: ") &&
                       Contains(" trained answers were cut and have no loss") &&
                       Contains(" of the policy, written to lustre-fsx-200 in ") && !Contains("prompts start"));
  // Prompts of a round come when the round before has ended.
  CHECK_THAT(text, Contains(" after its round begins in the mean") && !Contains("after the step begins"));
  CHECK(r.post_training->answers.late_first_token.value * 2 < r.post_training->generation.value);
  CHECK(r.post_training->unmeasured == "rounds of prompts, weights through a storage");
}

TEST_CASE("a model of rewards sees the answers of all rounds", "[post-training]") {
  const Overrides reward{{"post_training.reward", "{}"}};
  const PostTrainingResult once = simulated_loop(with_rounds("{useful: 1}", reward)),
                           rounds = simulated_loop(with_rounds("{useful: 0.3}", reward));
  CHECK(rounds.reward.value == Approx(rounds.rounds * once.reward.value).epsilon(0.05));
}

TEST_CASE("overlong filtering counts the trained answers that were cut", "[post-training]") {
  const Overrides cut{{"post_training.answer_tokens", "{values: [100, 200], most: 200}"},
                      {"post_training.overlong_filtering", "true"}};
  const PostTrainingResult r = simulated_loop(cut);
  CHECK(r.masked_answers > 0.4 * 2048);
  CHECK(r.masked_answers < 0.6 * 2048);
  CHECK(simulated_loop({cut.front()}).masked_answers == 0);
  CHECK(simulated_loop({cut.front()}).step_time == r.step_time);  // masked answers take part in the passes
}

TEST_CASE("rounds that a step cannot have are refused with the nearest value", "[post-training][errors]") {
  check_loop_refused(with_rounds("{useful: 0.1, most_rounds: 2}"), "nearest: ");
  check_loop_refused(with_rounds("{useful: 0.001, prompts: 1}"), "expected a larger share, or more prompts a round");
  check_loop_refused(with_rounds("{useful: 2}"), "useful");
  check_loop_refused(with_rounds("{useful: 0.5}", {{"post_training.started_prompts", "40"}}),
                     "dynamic_sampling says how many prompts are started");
  Overrides asynchronous = kApart;
  asynchronous.emplace_back("post_training.schedule", "asynchronous");
  check_loop_refused(with_rounds("{useful: 0.5}", asynchronous), "not modelled with asynchronous engines");
}

TEST_CASE("weights through a store take its rates, which nodes share", "[post-training]") {
  const auto stored = [](const char* store, const char* nodes) {
    Overrides changes = kApart;
    changes.front().second = nodes;
    changes.emplace_back("cluster.nodes", "5");
    changes.emplace_back("plan.pipeline_parallel", "1");
    changes.emplace_back("post_training.weights_storage", store);
    return simulated_loop(changes);
  };
  const PostTrainingResult one = stored("{read: 4 GB/s, write: 2 GB/s, latency: 1 ms}", "1"),
                           four = stored("{read: 4 GB/s, write: 2 GB/s, latency: 1 ms}", "4"),
                           fast = stored("{read: 400 GB/s, write: 400 GB/s, latency: 1 ms}", "4");
  CHECK(one.store_write.value == Approx(one.sent.value / 2e9).epsilon(0.05));  // copies to hosts come first
  CHECK(one.store_read.value == Approx(one.sent.value / 4e9).epsilon(0.02));
  CHECK(four.store_read.value == Approx(4 * four.sent.value / 4e9).epsilon(0.02));
  CHECK(four.weights.value == Approx(four.store_write.value + four.store_read.value));
  CHECK(four.weights_network.value == 0);
  // A fast store is bound by the adapters of the nodes: 8 of 400 Gbit/s each.
  CHECK(fast.store_read.value < four.store_read.value / 10);
  CHECK(fast.store_read.value > fast.sent.value / 400e9);
}

TEST_CASE("stores that cannot carry weights are refused", "[post-training][errors]") {
  const auto refused = [](const Overrides& changes, const std::string& words) {
    CAPTURE(words);
    CHECK_THROWS_WITH(simulated_loop(changes), Contains(words));
  };
  refused({{"post_training.weights_storage", "samsung-pm9a3"}},
          "is a drive of one node; expected a storage that nodes");
  refused({{"post_training.weights_storage", "nfs-10g"}, {"post_training.weights", "verl-nccl"}},
          "weights_storage carries the new weights");
  refused({{"post_training.weights_storage", "{read: 1 GB/s, latency: 1 ms, capacity: 1 GB}"}},
          "post_training.weights_storage: ");
  refused({{"post_training.weights_storage", "nfs-10"}}, "nfs-10g");
}

TEST_CASE("each pool of GPUs has parts that follow each other over the whole step", "[post-training]") {
  const std::vector<std::pair<Overrides, std::vector<std::string>>> cases{
      {{}, {"all"}},
      {{{"post_training.generation.nodes", "1"}}, {"generation", "training"}},
      {{{"post_training.generation.nodes", "1"}, {"post_training.schedule", "one-step-off"}},
       {"generation", "training"}},
      {{{"post_training.generation.nodes", "1"}, {"post_training.schedule", "asynchronous"}},
       {"generation", "training"}},
      {{{"cluster.nodes", "3"},
        {"post_training.generation.nodes", "1"},
        {"post_training.critic", "{model: llama-3-8b, nodes: 1}"}},
       {"generation", "training", "critic"}}};
  for (const auto& [overrides, names] : cases) {
    const PostTrainingResult r = simulated_loop(overrides);
    REQUIRE(r.pools.size() == names.size());
    int gpus = 0;
    for (std::size_t p = 0; p < names.size(); ++p) {
      CAPTURE(names[p]);
      CHECK(r.pools[p].name == names[p]);
      gpus += r.pools[p].gpus;
      double end = 0;
      for (const PostTrainingResult::Pool::Part& part : r.pools[p].parts) {
        CHECK(part.begin.value == end);
        end = part.end.value;
      }
      CHECK(end == Approx(r.step_time.value).epsilon(1e-9));
    }
    CHECK(gpus == r.gpus);
  }
}

}  // namespace scenarios_test_loop_rounds
