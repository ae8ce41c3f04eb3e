// Every post-training loop does the work of its answers, and its parts and the times of its pools sum to its step.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "tests/scenarios/loops.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_loop_balance {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

Overrides joined(Overrides all, const Overrides& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const Overrides kApart{{"post_training.generation.nodes", "1"}};
const Overrides kAsynchronous = joined(kApart, {{"post_training.schedule", "asynchronous"}});
const Overrides kCritic{{"cluster.nodes", "4"},
                        {"post_training.generation.nodes", "1"},
                        {"post_training.algorithm", "ppo"},
                        {"post_training.critic", "{nodes: 1}"}};

}  // namespace

TEST_CASE("an asynchronous loop takes as long as its sandboxes and engines need for its answers", "[post-training]") {
  for (const char* staleness : {"0.5", "1", "2"})
    for (const int sandboxes : {64, 512}) {
      CAPTURE(staleness, sandboxes);
      const PostTrainingResult r = simulated_loop(
          joined(kAsynchronous, {{"post_training.staleness", staleness},
                                 {"post_training.tools",
                                  "{calls: 2, wait: 30 s, tokens: 0, sandboxes: " + std::to_string(sandboxes) + "}"}}));
      const double bound = 2048.0 * 2 * 30 / sandboxes;
      CHECK(r.step_time.value >= bound * (1 - 0.002));
      CHECK(r.unsettled == 0);
      CHECK(r.busy_sandboxes == Approx(bound / r.step_time.value).epsilon(0.003));
    }
  // The engines generate the tokens of the answers that a step takes.
  for (const char* staleness : {"0", "1", "3"})
    for (const char* tensor : {"1", "2"}) {
      CAPTURE(staleness, tensor);
      const PostTrainingResult r =
          simulated_loop(joined(kAsynchronous, {{"post_training.staleness", staleness},
                                                {"post_training.generation.tensor_parallel", tensor}}));
      CHECK(r.unsettled == 0);
      CHECK(r.engine_tokens == Approx(2048 * r.mean_answer).epsilon(0.0021));
    }
}

TEST_CASE("sandboxes take cores of the nodes that generate, and calls wait for them", "[post-training]") {
  const auto tooled = [](const std::string& tools, Overrides more = {}) {
    more.emplace_back("post_training.tools", "{calls: 2, wait: 3 s, " + tools + "}");
    return more;
  };
  const auto run = [&](const std::string& tools, Overrides more = {}) { return simulated_loop(tooled(tools, more)); };
  // Two nodes of two sockets with 56 cores each: 112 sandboxes of two cores, and 74 of three, since none spans two nodes.
  CHECK(loop_scenario(tooled("cores: 2")).post_training->tools.sandboxes == 112);
  CHECK(loop_scenario(tooled("cores: 3")).post_training->tools.sandboxes == 2 * 37);
  CHECK(loop_scenario(tooled("cores: 3", kApart)).post_training->tools.sandboxes == 37);
  CHECK(loop_scenario(tooled("cores: 2, sandboxes: 40")).post_training->tools.sandboxes == 40);
  CHECK(loop_scenario(tooled("cores: 2")).post_training->tools.cores == 2);
  const double two = run("cores: 2").generation.value;
  CHECK(two == run("sandboxes: 112").generation.value);
  CHECK(run("cores: 4").generation.value > two);
  CHECK(run("cores: 2", {{"cluster.cpu.cores", "112"}}).generation.value < two);
  // A call on cores of half the speed takes twice as long; elsewhere it does not know these cores.
  const Overrides slow{{"cluster.cpu.thread_speed", "0.5"}};
  CHECK(loop_scenario(tooled("cores: 2", slow)).post_training->calls[0][0].value == Approx(6));
  CHECK(loop_scenario(tooled("sandboxes: 112", slow)).post_training->calls[0][0].value == 3);
  check_loop_refused(tooled("cores: 113"), "a sandbox of 113 cores, but dgx-h100 has 112; nearest: 112");
  check_loop_refused(tooled("cores: 2", {{"cluster.cpu", "{cores: 0}"}}), "cores");
  const Scenario s = loop_scenario(tooled("cores: 8"));
  const Answer a = answer(s, AnswerOptions{.simulation = {}, .factor = 2});
  const std::string screen = post_training_screen(s, a.result, a.what_ifs);
  CHECK_THAT(screen, Contains("28 at once on 8 cores each of the nodes that generate"));
  const auto more = std::ranges::find(a.what_ifs, std::string("sandboxes"), &WhatIf::resource_class);
  REQUIRE(more != a.what_ifs.end());
  CHECK(more->step_time < a.result.post_training->step_time);
  Overrides doubled = tooled("cores: 8");
  doubled.emplace_back("cluster.cpu.cores", "112");
  CHECK(more->step_time.value == Approx(simulated_loop(doubled).step_time.value).epsilon(1e-9));
}

TEST_CASE("the parts of a loop sum to its step, and pools work as long as their idle shares say", "[post-training]") {
  const std::vector<Overrides> stacks{{}, {{"post_training.stack", "verl"}}};
  const std::vector<Overrides> tools{{}, {{"post_training.tools", "{calls: 2, wait: 5 s, sandboxes: 512}"}}};
  std::vector<Overrides> schedules{{}, kApart, kCritic, joined(kApart, {{"post_training.schedule", "one-step-off"}})};
  for (const char* staleness : {"0", "1"})
    schedules.push_back(joined(kAsynchronous, {{"post_training.staleness", staleness}}));
  for (const Overrides& stack : stacks)
    for (const Overrides& calls : tools)
      for (const Overrides& schedule : schedules) {
        const Scenario s = loop_scenario(joined(joined(schedule, calls), stack));
        const PostTrainingResult r = *simulate_here(s, {.critical_path = false}).post_training;
        CAPTURE(s.post_training->stack.name, calls.size(), schedule);
        CHECK(r.summed_parts().value == Approx(r.step_time.value).epsilon(1e-9));
        for (const PostTrainingResult::Pool& pool : r.pools) {
          CAPTURE(pool.name);
          std::map<std::string, double> times;
          for (const auto& part : pool.parts) times[part.name] += (part.end - part.begin).value;
          CHECK(pool.parts.back().end.value == Approx(r.step_time.value));
          const double step = r.step_time.value;
          if (pool.name == "generation") CHECK(times["generation"] / step == Approx(1 - r.idle_generation));
          if (pool.name == "training")
            CHECK((times["training"] + times["log-probabilities"]) / step == Approx(1 - r.idle_training));
          if (pool.name == "critic") CHECK(times["critic"] / step == Approx(1 - r.idle_critic));
        }
      }
}

TEST_CASE("an asynchronous loop without staleness is the synchronous one, and the fetch of its answers",
          "[post-training]") {
  for (const char* stack : {"nemo-rl", "verl"})
    for (const char* tools : {"null", "{calls: 1, wait: 3 s}"}) {
      CAPTURE(stack, tools);
      const Overrides both{{"post_training.stack", stack}, {"post_training.tools", tools}};
      const PostTrainingResult in_turn = simulated_loop(joined(kApart, both)),
                               beside = simulated_loop(
                                   joined(joined(kAsynchronous, {{"post_training.staleness", "0"}}), both));
      CHECK((beside.step_time - beside.fetch).value == Approx(in_turn.step_time.value).epsilon(1e-9));
      CHECK((beside.fetch.value > 0) == (std::string(stack) == "verl"));
    }
}

TEST_CASE("a critic on its own nodes is a part of the step and has a what-if", "[post-training]") {
  const PostTrainingResult alone = simulated_loop({{"cluster.nodes", "3"}, {"post_training.generation.nodes", "1"}});
  const Scenario s = loop_scenario(kCritic);
  const Answer a = answer(s, {.simulation = {.critical_path = false}, .factor = 2});
  const PostTrainingResult& r = *a.result.post_training;
  CHECK(r.training.value == Approx(alone.training.value));
  CHECK(r.log_probabilities.value == Approx(alone.log_probabilities.value));
  CHECK(r.step_time.value == Approx(alone.step_time.value + r.critic_wait().value));
  CHECK(r.updates_wait.value > 0);
  CHECK(r.hidden_critic.value == Approx((r.critic - r.critic_wait()).value));
  const auto more = std::ranges::find(a.what_ifs, std::string("nodes of the critic"), &WhatIf::resource_class);
  REQUIRE(more != a.what_ifs.end());
  CHECK(more->step_time < r.step_time);
  CHECK_THAT(post_training_screen(s, a.result, a.what_ifs),
             Contains("2x nodes of the critic") && Contains("wait for the critic"));
}

TEST_CASE("what-ifs that lengthen a step are named with their share", "[post-training][what-if]") {
  Result r;
  r.step_time = Seconds{100};
  std::vector<WhatIf> what_ifs;
  for (const auto& [resource, seconds] :
       std::map<std::string, double>{{"NVLink", 80}, {"HCA", 99.9}, {"PCIe", 113.9}}) {
    WhatIf& w = what_ifs.emplace_back();
    w.resource_class = resource;
    w.factor = 2;
    w.step_time = Seconds{seconds};
  }
  CHECK_THAT(what_if_line(r, what_ifs), Contains("saves 20.0 %") &&
                                            Contains("; every other change saves less than 0.5 %; ") &&
                                            Contains("lengthens it by 13.9 %") && !Contains("-13.9"));
  // Each change of a loop is named with its share, or changes less than is worth naming.
  const Scenario s = loop_scenario(joined(kAsynchronous, {{"post_training.generation.tensor_parallel", "2"}}));
  const Answer a = answer(s, {.simulation = {.critical_path = false}, .factor = 2});
  const std::string line = what_if_line(a.result, a.what_ifs);
  for (const WhatIf& w : a.what_ifs) {
    const double saved = w.saves(a.result.main_time());
    CAPTURE(w.resource_class, saved);
    const std::string words = what_if_in_words(w.resource_class, w.factor);
    if (saved <= -0.005) CHECK_THAT(line, Contains(words + " lengthens it by "));
    if (saved >= 0.005) CHECK_THAT(line, Contains(words));
  }
}

TEST_CASE("algorithms without rollouts have no what-if of the software of the loop", "[post-training]") {
  const Scenario s = loop_scenario({}, "post-training-dpo-llama3-8b-8xh100");
  const Answer a = answer(s, {.simulation = {.critical_path = false}, .factor = 2});
  REQUIRE_FALSE(a.what_ifs.empty());
  CHECK(std::ranges::find(a.what_ifs, std::string("loop software"), &WhatIf::resource_class) == a.what_ifs.end());
}

TEST_CASE("recomputed keys and values of interrupted answers are a part of the prompts", "[post-training]") {
  const auto loop = [](const char* staleness, const char* partial) {
    return simulated_loop(joined(kAsynchronous, {{"post_training.staleness", staleness},
                                                 {"post_training.partial_rollouts", partial},
                                                 {"post_training.generation.tensor_parallel", "2"},
                                                 {"post_training.stack.loop_sample", "0 s"}}));
  };
  const PostTrainingResult few = loop("2", "true"), many = loop("8", "true"), no_partial = loop("2", "false");
  CHECK(many.recomputed > 2 * few.recomputed);
  CHECK(many.recomputed < many.parts.prefill);
  CHECK(no_partial.recomputed.value == 0);
  CHECK(simulated_loop().recomputed.value == 0);
}

TEST_CASE("packs hold nearly all tokens of samples that they have room for", "[post-training]") {
  for (const char* mean : {"100", "250", "400", "650", "1000"}) {
    CAPTURE(mean);
    const Scenario s =
        loop_scenario({{"post_training.answer_tokens.mean", mean}}, "post-training-dpo-llama3-8b-8xh100");
    const SamplePacks& packs = *s.post_training->packs;
    const double filled = s.post_training->stack.pack_fill * 4096;
    CHECK(static_cast<double>(packs.sequences * packs.tokens) >= 0.92 * filled);
    CHECK(static_cast<double>(packs.sequences * packs.tokens) <= filled);
  }
}

TEST_CASE("a training half of one node counts the adapters of all nodes", "[post-training][costs]") {
  for (const char* nodes : {"2", "3", "4"}) {
    CAPTURE(nodes);
    const Scenario s = loop_scenario({{"cluster.nodes", nodes}, {"post_training.generation.nodes", "1"}});
    const Result r = simulate_here(s, {.critical_path = false});
    const double adapters = 8.0 * std::stoi(nodes);
    Result booked = simulate_training(s, {.critical_path = false});
    REQUIRE(booked.energy);
    CHECK(booked.energy->parts.at("HCA") ==
          Approx(adapters * s.cluster.node.hca_power.power(1).value * r.post_training->step_time.value));
  }
}

TEST_CASE("an answer of one token ends with the pass of its prompt", "[post-training]") {
  PlainCosts costs;
  for (const double chunk : {0.0, 64.0})
    for (const double tokens : {1.0, 2.0, 3.0, 40.0}) {
      CAPTURE(chunk, tokens);
      EngineLimits limits = kLimits;
      limits.chunk = chunk;
      const EngineRun run = run_engine(costs, {{0, tokens}}, limits);
      CHECK(run.tokens == tokens);
      CHECK(run.steps == tokens - 1);
      CHECK(run.first_tokens[0].value == Approx(100e-6));
      CHECK(run.ends[0].value == Approx(100e-6 + (tokens - 1) * 1.1e-3));
    }
  // Each further token takes longer, beside others and with calls too.
  for (const std::size_t calls : {std::size_t{0}, std::size_t{2}}) {
    double before = 0;
    for (const double tokens : {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}) {
      CAPTURE(calls, tokens);
      const PlannedAnswer answer{0, tokens, std::vector<Seconds>(calls, Seconds{0.5})};
      const EngineRun run = run_engine(costs, {answer, {1, 30}, {2, 7}}, kLimits);
      CHECK(run.ends[0].value > before);
      CHECK(run.tokens == tokens + 37);
      before = run.ends[0].value;
    }
  }
}

TEST_CASE("requests of a closed loop follow each other with their time outside of the engine", "[post-training]") {
  const auto time_of = [](const char* requests, const char* concurrency) {
    const Scenario s = read_scenario(scenario_file("generation-llama3-70b-2xh100"),
                                     {{"generation.requests", requests}, {"generation.concurrency", concurrency}});
    return generation_result(*s.generation, s.model.entry).engines.generation.value;
  };
  const double one = time_of("1", "1");
  CHECK(time_of("16", "1") == Approx(16 * one).epsilon(1e-6));
  CHECK(time_of("16", "16") < 16 * one);
  CHECK(time_of("32", "16") == Approx(2 * time_of("16", "16")).epsilon(0.01));
}

TEST_CASE("loops and engines that cannot be are refused with the nearest", "[post-training][errors]") {
  const char* const large = "post-training-qwen3-235b-512xh100";
  check_loop_refused({{"post_training.generation.nodes", "1"}, {"cluster.hca", "null"}},
                     "has no adapters (cluster.hca), so that nothing goes from node to node");
  check_loop_refused({{"post_training.generation.nodes", "1"}, {"post_training.weights", "nemo-rl-colocated"}},
                     "nearest: nemo-rl-apart");
  check_loop_refused({{"post_training.generation.precision", "mxfp4"}}, "nearest: fp8");
  check_loop_refused({{"post_training.generation", "null"}}, "expected a map");
  check_loop_refused({{"post_training.generation.expert_parallel", "3"}}, "generation.expert_parallel: 3 GPUs", large);
  check_loop_refused({{"post_training.generation.expert_parallel", "256"}}, "nearest: 128", large);
  check_loop_refused({{"post_training.generation.nodes", "47"}}, "nearest: 46 or 48", large);
  for (const char* model : {"bert-large", "resnet50", "dlrm-dcnv2"}) {
    const std::string words = std::string(model) + " reads no text token by token; expected a decoder";
    const std::string map = "{model: " + std::string(model) + "}";
    check_loop_refused({{"post_training.reward", map}}, "post_training.reward.model: " + words);
    check_loop_refused({{"post_training.critic", map}}, "post_training.critic.model: " + words);
    check_loop_refused(
        {{"post_training.generation.speculation", "{draft: " + std::string(model) + ", tokens: 2, acceptance: 0.5}"}},
        "post_training.generation.speculation.draft: " + words);
  }
  for (const char* key : {"reward", "critic"})
    check_loop_refused({{std::string("post_training.") + key, "{model: gpt2}"}},
                       "beyond the context of gpt2 (post_training." + std::string(key) + ".model), 1024 positions");
  // No call takes a sandbox.
  CHECK_NOTHROW(simulated_loop({{"post_training.tools", "{calls: 0, wait: 3 s, sandboxes: 1}"}}));
}

}  // namespace scenarios_test_loop_balance
