// Asynchronous loops as `run` and `plan` answer them: what engines wait for, figures of a step, and the search.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/search/loop_layouts.hpp"
#include "tests/scenarios/loops.hpp"
#include "tools/reports/loop_plan_report.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_asynchronous_loops {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

Overrides asynchronous(const char* staleness, const Overrides& more = {}) {
  Overrides all{{"post_training.generation.nodes", "1"},
                {"post_training.schedule", "asynchronous"},
                {"post_training.staleness", staleness}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

double sum(const PostTrainingResult::EngineParts& parts) {
  return (parts.prefill + parts.products + parts.cache + parts.exchanges + parts.host + parts.calls).value;
}

const Overrides kPairsOfGpus{{"post_training.generation.tensor_parallel", "2"}};

}  // namespace

TEST_CASE("engines of an asynchronous loop work, wait for calls, wait for answers to start, or take weights",
          "[post-training]") {
  for (const char* staleness : {"0", "1", "2"})
    for (const char* tools : {"null", "{calls: 2, wait: 20 s, sandboxes: 768}", "{calls: 1, wait: 3 s, variation: 1}"})
      for (const char* loop : {"0 s", "15 ms"}) {
        CAPTURE(staleness, tools, loop);
        const PostTrainingResult r = simulated_loop(
            asynchronous(staleness, {{"post_training.tools", tools}, {"post_training.stack.loop_sample", loop}}));
        CHECK(sum(r.parts) + start_wait(r).value + r.weights.value ==
              Approx(r.step_time.value).epsilon(start_wait(r).value > 0 ? 1e-9 : 1e-2));
        if (r.hidden.value == 0)
          CHECK(r.limit == LoopLimit::both_in_turn);
        else
          CHECK((r.limit == LoopLimit::generation) == (r.waiting > start_wait(r)));
        CHECK((r.hidden.value == 0) == (std::string(staleness) == "0"));
      }
  // All waiting of these engines is for calls, so that generation limits the loop.
  const Overrides slow_calls = asynchronous("2", {{"post_training.tools", "{calls: 2, wait: 20 s, sandboxes: 768}"}});
  const PostTrainingResult r = simulated_loop(slow_calls);
  CHECK(r.parts.calls.value > 0.4 * r.step_time.value);
  CHECK(start_wait(r).value < 0.001 * r.step_time.value);
  CHECK(r.limit == LoopLimit::generation);
  const Scenario s = loop_scenario(slow_calls);
  CHECK_THAT(post_training_screen(s, simulate_here(s, {.critical_path = false}), {}),
             Contains("an engine 0.00 s for answers to start") && Contains("for calls of tools"));
}

TEST_CASE("without staleness, the halves of an asynchronous loop follow each other as those of a synchronous one",
          "[post-training]") {
  const Scenario s = loop_scenario(asynchronous("0"));
  const Result r = simulate_here(s, {.critical_path = false});
  const PostTrainingResult &loop = *r.post_training,
                           synchronous = simulated_loop({{"post_training.generation.nodes", "1"}});
  CHECK(loop.step_time.value == Approx(synchronous.step_time.value).epsilon(1e-9));
  CHECK(loop.hidden.value == 0);
  CHECK(loop.limit == synchronous.limit);
  CHECK_THAT(post_training_screen(s, r, {}), Contains("limit      generation and training follow each other") &&
                                                 !Contains("hidden") && !Contains("by some engine") &&
                                                 !Contains("-0.00"));
}

TEST_CASE("preempted sequences and the peak of the cache are those of a step", "[post-training]") {
  // Training limits these loops, and each batch starts on empty engines.
  for (const char* share : {"0.3", "0.6", "0.9"}) {
    CAPTURE(share);
    const std::pair<std::string, std::string> memory{"post_training.generation.memory_share", share};
    const PostTrainingResult in_turn =
        simulated_loop({{"post_training.generation.nodes", "1"}, {"post_training.schedule", "one-step-off"}, memory});
    for (const char* staleness : {"0", "1"}) {
      CAPTURE(staleness);
      const PostTrainingResult r = simulated_loop(asynchronous(staleness, {memory}));
      CHECK(r.preemptions == Approx(in_turn.preemptions).epsilon(1e-3));
      CHECK(r.memory.cache_peak.value == Approx(in_turn.memory.cache_peak.value).epsilon(1e-3));
      CHECK(r.waits_for_cache == in_turn.waits_for_cache);
    }
  }
}

TEST_CASE("the parts of the slowest engine sum to the generation, with a cut tail too", "[post-training]") {
  for (const char* started : {"64", "70", "80", "128"})
    for (const char* variation : {"0", "0.3", "1"}) {
      CAPTURE(started, variation);
      const PostTrainingResult r = simulated_loop(
          {{"post_training.started_prompts", started}, {"post_training.answer_tokens.variation", variation}});
      CHECK(sum(r.parts) == Approx(r.generation.value).epsilon(1e-9));
    }
}

TEST_CASE("plan finds the best asynchronous loop, whose training half need not be the fastest",
          "[post-training][plan]") {
  Overrides overrides = asynchronous("2", kPairsOfGpus);
  overrides.emplace_back("post_training.stack.loop_sample", "1.953125 ms");
  const Scenario s = loop_scenario(overrides);
  const LoopAnswer answer = search_loop_layouts(s, {{{"post_training.generation.nodes", {"1"}},
                                                     {"post_training.generation.tensor_parallel", {"2"}},
                                                     {"plan.tensor_parallel", {"1", "2"}},
                                                     {"plan.pipeline_parallel", {"1"}},
                                                     {"plan.micro_batch_size", {"1", "2"}},
                                                     {"plan.recompute", {"none", "full"}}}});
  double best = std::numeric_limits<double>::infinity(), fastest_half = best, half_of_best = 0;
  for (const char* tensor : {"1", "2"})
    for (const char* sequence : {"false", "true"})
      for (const char* micro : {"1", "2"})
        for (const char* recompute : {"none", "full"}) {
          try {
            const Result r = simulate_here(read_again(s, {{"plan.tensor_parallel", tensor},
                                                          {"plan.sequence_parallel", sequence},
                                                          {"plan.pipeline_parallel", "1"},
                                                          {"plan.micro_batch_size", micro},
                                                          {"plan.recompute", recompute}}),
                                           {.critical_path = false});
            if (!r.fits) continue;
            const PostTrainingResult& loop = *r.post_training;
            const double half = (loop.training + loop.log_probabilities).value;
            fastest_half = std::min(fastest_half, half);
            if (loop.step_time.value < best) half_of_best = half;
            best = std::min(best, loop.step_time.value);
          } catch (const UserError&) {  // no such layout
          }
        }
  REQUIRE(answer.best() != nullptr);
  CHECK(answer.proved);
  CHECK(half_of_best > 1.05 * fastest_half);
  CHECK(answer.best()->step_time <= best * (1 + 1e-9));
  CHECK_THAT(loop_plan_screen(answer, 5), Contains("faster, if no engine is faster than with its"));
}

TEST_CASE("the manual has a loop that faster software makes slower", "[post-training]") {
  // The figures of the manual (post-training.md).
  const auto step = [](const char* software) {
    Overrides overrides = asynchronous("1", kPairsOfGpus);
    overrides.emplace_back("post_training.stack.loop_sample", software);
    return simulated_loop(overrides);
  };
  CHECK(step("3.90625 ms").step_time.value == Approx(61.4).epsilon(0.001));
  CHECK(step("0 s").step_time.value == Approx(76.6).epsilon(0.001));
  CHECK(step("0 s").preemptions == 0);
}

TEST_CASE("the scenario's loop competes in plan unless the user's values leave it out", "[post-training][plan]") {
  Overrides overrides = asynchronous("2", kPairsOfGpus);
  overrides.insert(overrides.end(), {{"post_training.prompts", "16"}, {"plan.global_batch_size", "64"}});
  const Scenario s = loop_scenario(overrides);
  using Axes = std::vector<PlanSpaceOptions::Axis>;
  const PlanSpaceOptions::Axis nodes{"post_training.generation.nodes", {"1"}};
  for (const Axes& axes :
       {Axes{}, Axes{nodes}, Axes{nodes, {"post_training.staleness", {"2.0"}}},
        Axes{nodes, {"post_training.prompts", {"8", "16"}}, {"plan.pipeline_parallel", {"2", "4"}}}}) {
    LoopLayoutOptions options{axes, 1};  // the search ends with its first loops
    const LoopAnswer answer = search_loop_layouts(s, options);
    REQUIRE(answer.best() != nullptr);
    CHECK(answer.best()->samples_per_s >= answer.scenario_loop->samples_per_s);
  }
  CHECK(has_value(s, "post_training.generation.tensor_parallel", {"1", "2"}));
  CHECK_FALSE(has_value(s, "post_training.generation.tensor_parallel", {"1"}));
  CHECK(has_value(s, "plan.micro_batch_size", {"1"}));
  CHECK_FALSE(has_value(s, "plan.micro_batch_size", {"4"}));
  CHECK_FALSE(has_value(s, "plan.tensor_parallel", {"1"}));  // not stated
}

TEST_CASE("all numbers of nodes are tried for an asynchronous loop, and others are named", "[post-training][plan]") {
  Overrides overrides = asynchronous("1");
  overrides.insert(overrides.end(), {{"post_training.prompts", "16"}, {"plan.global_batch_size", "64"}});
  const Scenario s = loop_scenario(overrides);
  const LoopAnswer all = search_loops(s, {1e9, 6});
  std::set<int> tried;
  for (const LoopRow& row : all.rows) tried.insert(row.nodes);
  CHECK(tried == std::set<int>{1, 2, 3, 4, 5, 6});

  LoopAnswer answer;
  answer.scenario = "a loop";
  answer.wanted = 1;
  answer.has_asynchronous = true;
  for (const int number : {20, 16}) {
    LoopRow row;
    row.node = "dgx-h100";
    row.nodes = number;
    row.meets = number == 20;
    answer.rows.push_back(row);
  }
  REQUIRE(answer.fewest().size() == 1);
  CHECK(answer.fewest()[0].untried.size() == 18);
  CHECK_THAT(loop_plan_screen(answer, 1), Contains("not tried: 1, 2, 3,") && Contains("18, 19 nodes"));
}

TEST_CASE("GPUs of a critic do not count as GPUs that generate", "[post-training]") {
  const Scenario s = loop_scenario({{"cluster.nodes", "3"}, {"post_training.critic", "{model: llama-3-8b, nodes: 1}"}});
  CHECK_THAT(post_training_screen(s, simulate_here(s, {.critical_path = false}), {}),
             Contains("16 GPUs generate, then train\n"));
  LoopAnswer answer;
  answer.rows.push_back(simulated_row(s, own_placement(s), {}));
  CHECK_THAT(loop_plan_screen(answer, 1), Contains("2 x dgx-h100 generate, then train, beside 1 of a critic; engines"));
}

}  // namespace scenarios_test_asynchronous_loops
