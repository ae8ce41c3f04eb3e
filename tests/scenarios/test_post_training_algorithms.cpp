// Post-training without rollouts, names of algorithms, and critics on GPUs of their own.
#include <algorithm>
#include <catch2/catch.hpp>

#include "scenarios/src/search/loop_search.hpp"
#include "tests/scenarios/loops.hpp"

namespace scenarios_test_post_training_algorithms {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kPairs = "post-training-dpo-llama3-8b-8xh100";

Result simulated_pairs(const Overrides& overrides = {}) {
  return simulate_here(loop_scenario(overrides, kPairs), {.critical_path = false});
}

/// The overrides, and others.
Overrides with(Overrides all, const Overrides& others) {
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace

TEST_CASE("a step of pairs is a training on two sequences a pair and a forward pass of the reference",
          "[post-training]") {
  // Answers of one length fill the padded samples, so that the training is the one on these sequences.
  const Overrides padded{{"post_training.packing", "false"},
                         {"post_training.prompt_tokens", "1024"},
                         {"post_training.answer_tokens", "{mean: 3072, variation: 0, most: 3072}"},
                         {"post_training.prompts", "16"},
                         {"post_training.log_probabilities.micro_batch_size", "1"}};
  const Overrides alone{{"post_training", "null"}, {"plan.global_batch_size", "32"}};
  const PostTrainingResult pairs = *simulated_pairs(padded).post_training;
  const Result training = simulated_pairs(alone);
  const Result pass = simulated_pairs(
      with(alone, {{"plan.mode", "inference"}, {"plan.recompute", "null"}, {"plan.data_parallel", "null"}}));
  CHECK(pairs.training.value == Approx(training.step_time.value).epsilon(1e-12));
  CHECK(pairs.log_probabilities.value == Approx(pass.step_time.value).epsilon(1e-12));
  CHECK(pairs.step_time.value == Approx(training.step_time.value + pass.step_time.value).epsilon(1e-12));
  CHECK(pairs.reference.value == pairs.log_probabilities.value);
  CHECK(pairs.reference_weights.value == pass.memory.parameters.value);
  CHECK(pairs.reference_weights.value == Approx(16.06e9).epsilon(0.01));
  CHECK(pairs.reference_peak.value >= training.memory.peak.value + pass.memory.parameters.value);
  CHECK(pairs.samples_per_s == Approx(32 / pairs.step_time.value));
  CHECK(pairs.tokens_per_s_per_gpu == Approx(32 * 4096 / pairs.step_time.value / 8));
  CHECK(pairs.gpus == 8);
  CHECK(pairs.generation_gpus == 0);
  CHECK(pairs.generation.value + pairs.weights.value + pairs.reload.value + pairs.loop.value == 0);
  CHECK(pairs.idle_training == 0);
  CHECK_FALSE(pairs.likely_step_times);
}

TEST_CASE("without a reference, or with precomputed log-probabilities, a step of pairs is the training alone",
          "[post-training]") {
  const Result each_step = simulated_pairs();
  const PostTrainingResult& r = *each_step.post_training;
  CHECK(r.algorithm == "dpo");
  CHECK(r.training.value == each_step.step_time.value * r.optimizer_steps);
  CHECK(r.summed_parts().value == r.step_time.value);
  const PostTrainingResult none = *simulated_pairs({{"post_training.reference", "none"}}).post_training,
                           before = *simulated_pairs({{"post_training.reference", "precomputed"}}).post_training;
  for (const PostTrainingResult& other : {none, before}) {
    CHECK(other.step_time.value == r.training.value);
    CHECK(other.log_probabilities.value == 0);
    CHECK(other.reference_peak.value == 0);
  }
  CHECK(none.reference.value == 0);
  CHECK(before.reference.value == r.reference.value);

  // The frozen network under adapters is the reference.
  const Result adapters = simulated_pairs({{"plan.lora", "{rank: 16}"}, {"plan.data_parallel", "null"}});
  CHECK(adapters.post_training->reference.value > 0);
  CHECK(adapters.post_training->reference_weights.value == 0);
  CHECK(adapters.post_training->reference_peak.value >= adapters.memory.peak.value);
}

TEST_CASE("a teacher takes the forward pass that a reference of its network takes", "[post-training]") {
  const PostTrainingResult pairs = *simulated_pairs().post_training;
  const Overrides distillation{{"post_training.algorithm", "distillation"}, {"post_training.samples_per_prompt", "2"}};
  const auto taught_by = [&](const char* teacher) {
    return *simulated_pairs(with(distillation, {{"post_training.teacher", teacher}})).post_training;
  };
  const PostTrainingResult alike = taught_by("{model: llama-3-8b}"), smaller = taught_by("{model: llama-3.2-1b}");
  CHECK(alike.step_time.value == pairs.step_time.value);
  CHECK(alike.reference_weights.value == pairs.reference_weights.value);
  CHECK(smaller.training.value == alike.training.value);
  CHECK(smaller.reference.value < alike.reference.value);
  CHECK(smaller.reference_weights.value < alike.reference_weights.value);
}

TEST_CASE("algorithms with rollouts differ in the models that they have", "[post-training]") {
  const auto step = [](const Overrides& overrides) { return simulated_loop(overrides).step_time.value; };
  const double plain = step({});
  CHECK(step({{"post_training.algorithm", "grpo"}}) == plain);
  CHECK(step({{"post_training.algorithm", "rloo"}}) == plain);
  CHECK(step({{"post_training.algorithm", "dapo"}}) == step({{"post_training.log_probabilities.passes", "1"}}));
  const Overrides critic{{"post_training.critic", "{}"}};
  CHECK(step(with(critic, {{"post_training.algorithm", "ppo"}})) == step(critic));
  CHECK(loop_scenario().post_training->algorithm.name == "grpo");
  CHECK(loop_scenario(critic).post_training->algorithm.name == "ppo");
}

TEST_CASE("a critic on as many GPUs of its own works beside the policy, and frees its states", "[post-training]") {
  const Overrides one_node{{"cluster.nodes", "1"}};
  const PostTrainingResult alone = simulated_loop(one_node),
                           in_turn = simulated_loop(with(one_node, {{"post_training.critic", "{}"}})),
                           beside = simulated_loop({{"post_training.critic", "{nodes: 1}"}});
  CHECK(beside.gpus == 16);
  CHECK(beside.critic_gpus == 8);
  CHECK(beside.training_gpus == 8);
  CHECK(beside.step_time.value == Approx(alone.step_time.value).epsilon(1e-12));
  CHECK(beside.critic.value == Approx(in_turn.critic.value).epsilon(1e-12));
  CHECK(beside.hidden_critic.value == Approx(beside.critic.value).epsilon(1e-12));
  CHECK(beside.critic_wait().value == 0);  // sums of equal times differ by rounding alone
  CHECK(in_turn.hidden_critic.value == 0);
  CHECK(in_turn.critic_gpus == 0);
  CHECK(beside.summed_parts().value == beside.step_time.value);
  CHECK(beside.freed_states.value == in_turn.critic_states.value);
  CHECK(beside.critic_peak.value < in_turn.critic_peak.value);
  CHECK(beside.idle_critic == Approx(1 - beside.critic.value / beside.step_time.value));
  CHECK(beside.tokens_per_s == Approx(alone.tokens_per_s));
  CHECK(beside.tokens_per_s_per_gpu == Approx(alone.tokens_per_s_per_gpu / 2));
}

TEST_CASE("a loop fits only if each of its models fits on the GPUs that train, in its turn", "[post-training]") {
  const auto simulated = [](const Overrides& overrides) {
    return simulate_here(loop_scenario(with(overrides, {{"post_training.prompts", "16"}})), {.critical_path = false});
  };
  const auto phase = [](const Result& r, const std::string& name) {
    const auto& phases = r.post_training->phases;
    const auto found = std::ranges::find(phases, name, &PostTrainingResult::PhaseMemory::phase);
    REQUIRE(found != phases.end());
    return *found;
  };
  const Result plain = simulated({});
  CHECK(plain.fits);
  // The reference takes the place of the policy's weights, so that it needs no further memory in its pass.
  const std::string passes = "log-probabilities of policy and reference";
  REQUIRE(plain.post_training->phases.size() == 1);
  CHECK(plain.post_training->reference_weights.value > 0);
  CHECK(phase(plain, passes).needed > plain.post_training->reference_weights);
  CHECK(simulated({{"post_training.log_probabilities.passes", "1"}}).post_training->reference_weights.value == 0);

  const Result small = simulated({{"post_training.reward", "{model: llama-3-8b}"}});
  CHECK(small.fits);
  CHECK(phase(small, "reward").needed < phase(small, "reward").usable);
  const Result reward = simulated({{"post_training.reward", "{model: llama-3.1-405b}"}});
  CHECK_FALSE(reward.fits);
  CHECK(reward.plan_fits());
  CHECK_FALSE(phase(reward, "reward").fits());
  CHECK(phase(reward, passes).fits());
  const Result critic = simulated({{"post_training.critic", "{model: llama-3-70b}"}});
  CHECK_FALSE(critic.fits);
  CHECK_FALSE(phase(critic, "training of policy and critic").fits());
  CHECK(phase(critic, "training of policy and critic").needed > critic.post_training->critic_peak);
  const Result apart = simulated({{"post_training.critic", "{model: llama-3-70b, nodes: 1}"}});
  CHECK_FALSE(apart.fits);
  CHECK_FALSE(phase(apart, "critic").fits());

  // The optimizer's states stay during passes if training has its own GPUs.
  const Result split = simulated({{"cluster.nodes", "3"}, {"post_training.generation.nodes", "1"}});
  CHECK(phase(split, passes).needed.value >= phase(plain, passes).needed.value + split.memory.optimizer.value - 1e6);
}

TEST_CASE("a critic on fewer GPUs than the policy sets the time of the training", "[post-training]") {
  const Overrides split{{"cluster.nodes", "4"}, {"post_training.generation.nodes", "1"}};
  const PostTrainingResult r = simulated_loop(with(split, {{"post_training.critic", "{nodes: 1}"}})),
                           policy = simulated_loop({{"cluster.nodes", "3"}, {"post_training.generation.nodes", "1"}});
  CHECK(r.generation_gpus == 8);
  CHECK(r.training_gpus == 16);
  CHECK(r.critic_gpus == 8);
  CHECK(r.gpus == 32);
  CHECK(r.training.value == Approx(policy.training.value));
  CHECK(r.critic_wait().value > 0);
  CHECK(r.hidden_critic.value < r.critic.value);
  CHECK((1 - r.idle_training) * r.step_time.value ==
        Approx((1 - policy.idle_training) * policy.step_time.value).epsilon(1e-12));
  // The step is longer by the part of the critic's time that the policy's does not hide.
  CHECK(r.step_time.value == Approx(policy.step_time.value + r.critic.value - r.hidden_critic.value).epsilon(1e-12));
  CHECK(r.summed_parts().value == r.step_time.value);
}

TEST_CASE("keys that an algorithm does not have are refused with the nearest choice", "[post-training]") {
  const auto refused = [](const Overrides& overrides, const std::string& words) {
    CAPTURE(words);
    CHECK_THROWS_WITH(loop_scenario(overrides, kPairs), Contains(words));
  };
  for (const auto& [key, value] : Overrides{{"generation", "{engine: vllm}"},
                                            {"schedule", "asynchronous"},
                                            {"staleness", "1"},
                                            {"critic", "{}"},
                                            {"reward", "{}"},
                                            {"weights", "nemo-rl-colocated"},
                                            {"started_prompts", "200"},
                                            {"tools", "{calls: 1, wait: 1 s}"},
                                            {"order", "started"},
                                            {"partial_rollouts", "false"}})
    refused({{"post_training." + key, value}},
            "post_training." + key + ": dpo generates no answers; with algorithm grpo");
  refused({{"post_training.log_probabilities.passes", "1"}}, "dpo has the passes of its reference or teacher");
  refused({{"post_training.samples_per_prompt", "4"}}, "a chosen and a rejected answer; expected 2");
  refused({{"post_training.prompts", "127"}, {"plan.global_batch_size", "127"}},
          "split a pair of a chosen and a "
          "rejected answer; nearest: 254");
  refused({{"post_training.algorithm", "sft"}},
          "sft is ordinary training on answers that exist; leave "
          "post_training out");
  refused({{"post_training.algorithm", "distillation"}},
          "expected post_training.teacher, such as {model: llama-3-70b}");
  refused({{"post_training.teacher", "{model: gpt2}"}}, "teacher: with algorithm: distillation only");
  refused({{"post_training.algorithm", "dop"}}, "dpo");
  refused({{"learn", "{task: bandit}"}}, "dpo, which generates no answers; expected grpo");
  CHECK_THROWS_WITH(search_loops(loop_scenario({}, kPairs), {}), Contains("dpo has no engines to place"));
  check_loop_refused({{"post_training.reference", "none"}}, "reference: with algorithm: dpo only");
  check_loop_refused({{"post_training.algorithm", "ppo"}}, "expected post_training.critic, such as {}");
  check_loop_refused({{"post_training.algorithm", "grpo"}, {"post_training.critic", "{}"}}, "with algorithm: ppo only");
  check_loop_refused({{"post_training.critic", "{nodes: 2}"}}, "too few are left for the policy; expected at most 1");
  check_loop_refused({{"post_training.critic", "{nodes: 1}"}, {"post_training.generation.nodes", "1"}},
                     "expected more cluster.nodes, or no critic.nodes");
  CHECK_THROWS_WITH(
      simulated_loop(
          {{"cluster.nodes", "4"}, {"post_training.critic", "{nodes: 3}"}, {"post_training.packing", "false"}}),
      Contains("post_training.critic.nodes: 512 samples") && Contains("nearest plan.global_batch_size"));
}

}  // namespace scenarios_test_post_training_algorithms
