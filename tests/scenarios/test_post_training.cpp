// Post-training loops: engines sample by sample, and the step of generation, log-probabilities, training and weights.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/running/post_training_run.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "tests/scenarios/loops.hpp"

namespace scenarios_test_post_training {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

double sum_of(const std::vector<PlannedAnswer>& answers) {
  double sum = 0;
  for (const PlannedAnswer& answer : answers) sum += answer.tokens;
  return sum;
}

}  // namespace

TEST_CASE("one answer takes the time of its prompt, which gives the first token, and of a decode step per other token",
          "[post-training]") {
  const PlainCosts costs;
  for (const double tokens : {1.0, 15.0, 16.0, 17.0, 500.0}) {
    CAPTURE(tokens);
    const EngineRun run = run_engine(costs, {{0, tokens}}, kLimits);
    const double steps = tokens - 1;
    CHECK(run.time.value == Approx(100e-6 + steps * 1.1e-3).epsilon(1e-12));
    CHECK(run.ends.front() == run.time);
    CHECK(run.steps == steps);
    CHECK(run.tokens == tokens);
    CHECK(run.prefill.value == Approx(100e-6));
    CHECK(run.cache_peak.value == 100 + tokens);
    CHECK(run.preemptions == 0);
  }
}

TEST_CASE("answers of one length run together if the cache has room", "[post-training]") {
  const PlainCosts costs;
  const std::vector<PlannedAnswer> answers(50, {0, 200});
  const EngineRun run = run_engine(costs, answers, kLimits);
  CHECK(run.time.value == Approx(100e-6 + 199 * (1e-3 + 50e-4)).epsilon(1e-12));
  CHECK(run.cache_peak.value == 100 + 50 * 200);  // the cache has the prompt once
  EngineLimits narrow_limits = kLimits;
  narrow_limits.most_sequences = 25;
  CHECK(run_engine(costs, answers, narrow_limits).time.value ==
        Approx(2 * (100e-6 + 199 * (1e-3 + 25e-4))).epsilon(1e-12));
}

TEST_CASE("answers to other prompts share no keys and values", "[post-training]") {
  const PlainCosts costs;
  const EngineRun run = run_engine(costs, {{0, 200}, {1, 200}, {2, 200}}, kLimits);
  CHECK(run.cache_peak.value == 3 * (100 + 200));
  CHECK(run.prefill.value == Approx(300e-6));
}

TEST_CASE("every answer ends, no token is lost, and the cache never exceeds its room", "[post-training]") {
  const std::vector<PlannedAnswer> answers = planned_answers(200, 0.8);
  PlainCosts costs;
  double previous_time = 0;
  for (const double room : {1020.0, 1500.0, 4000.0, 12000.0, 1e9}) {
    CAPTURE(room);
    costs.bytes = Bytes{room};
    const EngineRun run = run_engine(costs, answers, kLimits);
    CHECK(run.tokens == sum_of(answers));
    CHECK(run.cache_peak.value <= room);
    CHECK(*std::ranges::min_element(run.ends) > Seconds{});
    CHECK(*std::ranges::max_element(run.ends) == run.time);
    CHECK((run.prefill + run.decode.sum()).value == Approx(run.time.value).epsilon(1e-12));
    if (previous_time > 0) CHECK(run.time.value <= previous_time);  // more room is never slower here
    previous_time = run.time.value;
    if (room == 4000) CHECK(run.preemptions > 0);
    if (room == 1e9) CHECK(run.preemptions == 0);
  }
}

TEST_CASE("a faster engine is never slower, and a longer tail never faster", "[post-training]") {
  PlainCosts costs;
  const double plain = run_engine(costs, planned_answers(100, 0.5), kLimits).time.value;
  costs.slow = 0.5;
  CHECK(run_engine(costs, planned_answers(100, 0.5), kLimits).time.value < plain);
  CHECK(run_engine(costs, planned_answers(100, 0), kLimits).time.value <
        run_engine(costs, planned_answers(100, 0.5), kLimits).time.value);
}

TEST_CASE("drawn lengths have the mean after the cut, and the same seed draws the same", "[post-training]") {
  for (const double variation : {0.0, 0.3, 1.0, 2.0})
    for (const std::int64_t most : {350, 900, 100000}) {
      CAPTURE(variation, most);
      const AnswerLengths lengths{.mean = 300, .variation = variation, .most = most};
      const std::vector<double> all = lengths.draw(20000);
      CHECK(std::accumulate(all.begin(), all.end(), 0.0) / 20000 == Approx(300).epsilon(0.05));
      CHECK(*std::ranges::max_element(all) <= static_cast<double>(most));
      CHECK(*std::ranges::min_element(all) >= 1);
      CHECK(all == lengths.draw(20000));
      AnswerLengths other = lengths;
      other.seed = 2;
      CHECK((variation == 0) == (other.draw(20000) == all));
    }
  const AnswerLengths values{.most = 50, .values = {10, 20, 400}};
  for (const double length : values.draw(100)) CHECK((length == 10 || length == 20 || length == 50));
}

TEST_CASE("an engine's GPU holds its share of the weights, and the kind of attention decides on its keys and values",
          "[post-training]") {
  const Scenario s = loop_scenario();
  const auto costs_of = [&](const char* network, int tensor, EngineFormat cache = EngineFormat::bf16) {
    const Catalog catalog;
    return DecodeCosts(read_network_entry(catalog.resolve("network", Node::scalar_node(network))),
                       s.post_training->engine, s.post_training->generators.node.gpu,
                       EngineLayout{.tensor = tensor, .cache = cache, .memory_share = 0.9},
                       [](Bytes) { return Seconds{}; });
  };
  const DecodeCosts llama = costs_of("llama-3-8b", 1), split_llama = costs_of("llama-3-8b", 4),
                    latent = costs_of("deepseek-v3", 32);
  CHECK(llama.weights().value == Approx(16.06e9).epsilon(0.01));
  CHECK(llama.weights() == llama.policy());
  CHECK(split_llama.weights().value == Approx(llama.weights().value / 4).epsilon(0.01));
  CHECK(llama.cache(10).value == 10 * 2 * 8 * 128 * 2 * 32);
  CHECK(split_llama.cache(10).value == llama.cache(10).value / 4);
  CHECK(costs_of("llama-3-8b", 1, EngineFormat::fp8).cache(10).value == llama.cache(10).value / 2);
  CHECK_THROWS_WITH(costs_of("bert-large", 1), Contains("generates no text token by token"));
  CHECK(latent.cache(10).value == 10 * (512 + 64) * 2 * 61);
  for (const int batch : {1, 8, 64, 512}) {
    CAPTURE(batch);
    CHECK(llama.decode(batch, 500).sum() < llama.decode(batch * 2, 500).sum());
    CHECK(llama.decode(batch, 500).sum() < llama.decode(batch, 5000).sum());
    CHECK(split_llama.decode(batch, 500).products < llama.decode(batch, 500).products);
  }
  // The products of a batch of one read all weights, so they take one to two times as long as this reading.
  const BytesPerSecond rate = s.post_training->generators.node.gpu.memory_bandwidth;
  CHECK(llama.decode(1, 1).products > 0.9 * llama.weights() / rate);
  CHECK(llama.decode(1, 1).products < 2 * llama.weights() / rate);
}

TEST_CASE("the parts of a step of the loop sum to it", "[post-training]") {
  const PostTrainingResult r = simulated_loop();
  CHECK(r.summed_parts().value == r.step_time.value);
  CHECK(r.hidden.value == 0);
  CHECK(r.reload.value > 0);
  CHECK(r.optimizer_steps == 4);
  CHECK(r.engines == 16);
  CHECK(r.gpus == 16);
  const PostTrainingResult::EngineParts& p = r.parts;
  CHECK(p.prefill.value + p.products.value + p.cache.value + p.exchanges.value + p.host.value ==
        Approx(r.generation.value));
  CHECK(r.memory.cache_peak.value <= r.memory.cache.value);
  CHECK(r.memory.weights.value + r.memory.reserved.value + r.memory.cache.value == Approx(r.memory.capacity.value));
  CHECK(r.tokens_per_s_per_gpu * r.gpus == Approx(2048 * (r.mean_answer + 110) / r.step_time.value));
}

TEST_CASE("a one-step-off loop takes the longer of its halves, and only the generation if training costs nothing",
          "[post-training]") {
  const Overrides separate_nodes{{"post_training.generation.nodes", "1"}};
  const PostTrainingResult synchronous = simulated_loop(separate_nodes);
  Overrides one_step_off = separate_nodes;
  one_step_off.emplace_back("post_training.schedule", "one-step-off");
  const PostTrainingResult overlapped = simulated_loop(one_step_off);
  CHECK(synchronous.reload.value == 0);
  CHECK(synchronous.generation_gpus + synchronous.training_gpus == 16);
  const double training_half = overlapped.training.value + overlapped.log_probabilities.value + overlapped.loop.value;
  CHECK(synchronous.step_time.value == Approx(overlapped.generation.value + training_half + overlapped.weights.value));
  CHECK(overlapped.step_time.value ==
        Approx(std::max(overlapped.generation.value, training_half) + overlapped.weights.value));
  CHECK(overlapped.limit ==
        (overlapped.generation.value > training_half ? LoopLimit::generation : LoopLimit::training));
  // The engines are the same: the schedule does not change the generation.
  CHECK(overlapped.generation.value == synchronous.generation.value);

  PostTrainingChoice choice = *loop_scenario(one_step_off).post_training;
  choice.stack.loop_sample = Seconds{};
  PostTrainingResult generation_only = overlapped;
  generation_only.training.value = generation_only.log_probabilities.value = 0;
  close_loop(choice, loop_scenario(one_step_off).model.entry, generation_only);
  CHECK(generation_only.step_time.value == Approx(generation_only.generation.value + generation_only.weights.value));
  CHECK(generation_only.idle_training == 1);
}

TEST_CASE("faster memory, fewer passes and shorter answers are never slower", "[post-training]") {
  const PostTrainingResult plain = simulated_loop();
  CHECK(simulated_loop({{"cluster.gpu.memory_bandwidth", "6.7 TB/s"}}).generation.value < plain.generation.value);
  CHECK(simulated_loop({{"post_training.log_probabilities.passes", "1"}}).log_probabilities.value ==
        Approx(plain.log_probabilities.value / 2));
  CHECK(simulated_loop({{"post_training.answer_tokens.mean", "600"}}).step_time.value < plain.step_time.value);
  CHECK(simulated_loop({{"post_training.packing", "false"}}).training.value > plain.training.value);
  CHECK(simulated_loop({{"post_training.weights", "{rate: 1 GB/s}"}}).weights.value ==
        Approx(plain.policy.value / 1e9));
}

TEST_CASE("the adapters of a node bound the transfer of weights, and the time of tensors bounds it on fast ones",
          "[post-training]") {
  const Overrides apart{{"post_training.generation.nodes", "1"}};
  const auto weights = [&](const char* rate, Overrides overrides) {
    overrides.emplace_back("cluster.hca.rate", rate);
    return simulated_loop(overrides);
  };
  const PostTrainingResult fast = weights("400 Gbit/s", apart), half = weights("20 Gbit/s", apart),
                           slow = weights("1 Gbit/s", apart);
  CHECK(fast.weights.value == simulated_loop(apart).weights.value);
  CHECK(fast.weights.value == Approx(291 * 0.8e-3));  // the tensors of Llama 3 8B, as nemo-rl-apart sends them
  CHECK(half.weights.value >= fast.weights.value);
  CHECK(slow.weights.value >= half.weights.value);
  CHECK(slow.weights.value >= slow.policy.value / (8 * 125e6));
  CHECK(slow.step_time.value - slow.weights.value == Approx(fast.step_time.value - fast.weights.value));
  // Colocated, a node lacks the tensors of other nodes alone. Two pipeline stages of Llama 3 8B lie on one node.
  CHECK(weights("1 Gbit/s", {}).weights.value == simulated_loop().weights.value);
  const Overrides spread{{"plan.tensor_parallel", "8"}};
  const PostTrainingResult two_nodes = weights("1 Gbit/s", spread);
  CHECK(two_nodes.weights.value == Approx(0.5 * two_nodes.policy.value / (8 * 125e6)));
}

TEST_CASE("links between nodes carry the weights, and all nodes of a chain pass them on", "[post-training]") {
  const auto apart = [](Overrides overrides) {
    overrides.insert(
        overrides.end(),
        {{"post_training.generation.nodes", "3"}, {"cluster.nodes", "4"}, {"cluster.hca.rate", "1 Gbit/s"}});
    return simulated_loop(overrides);
  };
  const PostTrainingResult three = apart({});
  const double through_adapters = three.sent.value / (8 * 125e6);
  // The last of three nodes has all buckets two buckets after the first one.
  CHECK(three.weights_network.value == Approx(through_adapters * (1 + 2 / 64.0)).epsilon(0.02));
  CHECK(three.weights.value >= three.weights_network.value);
  CHECK(apart({{"model", "llama-3.2-1b"}}).weights_network.value / three.weights_network.value ==
        Approx(apart({{"model", "llama-3.2-1b"}}).sent / three.sent).epsilon(1e-3));
}

TEST_CASE("parameters and optimizer states leave colocated GPUs and come back over PCIe", "[post-training]") {
  const PostTrainingResult r = simulated_loop(), slow = simulated_loop({{"cluster.pcie.rate", "1 GB/s"}});
  CHECK(r.reload_copies.value > 0);
  CHECK(r.reload_copies.value < r.reload.value);
  CHECK(slow.reload_copies.value == Approx(2 * r.moved_states.value / 1e9));
  // The four GPUs of a socket share its memory.
  CHECK(simulated_loop({{"cluster.cpu.memory_bandwidth", "20 GB/s"}}).reload_copies.value ==
        Approx(2 * 4 * r.moved_states.value / 20e9).epsilon(0.001));
  CHECK(slow.reload.value - slow.reload_copies.value == Approx(r.reload.value - r.reload_copies.value));
  CHECK(slow.summed_parts().value == slow.step_time.value);
  CHECK(simulated_loop({{"post_training.generation.nodes", "1"}}).reload_copies.value == 0);
}

TEST_CASE("the shipped loops are colocated on 8 GPUs, split and synchronous on 64, and asynchronous on 512",
          "[post-training]") {
  const auto loop = [](const char* name) { return *loop_scenario({}, name).post_training; };
  const PostTrainingChoice one_node = loop("post-training-llama3-8b-8xh100"),
                           split = loop("post-training-qwen3-32b-64xh100"),
                           asynchronous = loop("post-training-qwen3-235b-512xh100");
  CHECK(one_node.generators.gpus() == 8);
  CHECK_FALSE(one_node.has_own_nodes());
  CHECK(split.machine_nodes * split.generators.node.gpus == 64);
  CHECK(split.has_own_nodes());
  CHECK_FALSE((split.one_step_off || split.asynchrony));
  CHECK(asynchronous.machine_nodes * asynchronous.generators.node.gpus == 512);
  CHECK(asynchronous.asynchrony);
  CHECK(simulated_loop({}, "post-training-llama3-8b-8xh100").gpus == 8);
}

TEST_CASE("lengths beyond the context of the model are refused with the nearest one", "[post-training]") {
  const char* const name = "post-training-qwen3-32b-64xh100";
  const Overrides long_answers{{"plan.seq_length", "65536"}};
  const auto with_most = [&](const char* most) {
    Overrides all = long_answers;
    all.emplace_back("post_training.answer_tokens.most", most);
    return all;
  };
  check_loop_refused(with_most("60000"),
                     "lengths beyond the context of qwen3-32b, 40960 positions; expected at most 40850", name);
  check_loop_refused(with_most("40851"), "expected at most 40850", name);
  CHECK_NOTHROW(loop_scenario(with_most("40850"), name));

  const auto prompts = [](const char* tokens) { return Overrides{{"post_training.prompt_tokens", tokens}}; };
  check_loop_refused(prompts("10000"),
                     "post_training.prompt_tokens: prompts of 10000 tokens alone are longer than the 4096 of "
                     "plan.seq_length, with one token of an answer; nearest: 110, before answers of up to 3986");
  check_loop_refused({{"post_training.prompt_tokens", "10000"}, {"post_training.answer_tokens.most", "8000"}},
                     "nearest: 4095, with post_training.answer_tokens.most: 1");
  check_loop_refused(prompts("4095"), "or post_training.answer_tokens.most: 1");
  CHECK_NOTHROW(loop_scenario(prompts("110")));
  check_loop_refused({{"post_training.prompt_tokens", "9000"}, {"plan.seq_length", "16384"}},
                     "prompts alone are longer; prompt_tokens: nearest: 4206, before answers of up to 3986");
}

TEST_CASE("packs have as many tokens as their samples", "[post-training]") {
  const Scenario s = loop_scenario();
  const SamplePacks& packs = *s.post_training->packs;
  CHECK(packs.sequences * packs.tokens <= 4096);
  CHECK(s.network.tokens_per_sample == packs.tokens);
  CHECK(s.micro_batch_size == packs.sequences);
  const double tokens = static_cast<double>(s.global_batch_size * packs.tokens), needed = 512 * packs.sample_tokens;
  CHECK(tokens >= needed);
  CHECK(tokens <= needed + static_cast<double>(packs.sequences * packs.tokens * s.plan.mesh.data));
  const Scenario passes = log_probability_scenario(s);
  CHECK(passes.plan.inference);
  CHECK(passes.ranks() == s.ranks());
  CHECK(static_cast<double>(passes.global_batch_size * packs.tokens) >= 2048 * packs.sample_tokens);
}

TEST_CASE("splits are tried over the nodes, and the fastest comes first", "[post-training]") {
  const char* const name = "post-training-qwen3-32b-64xh100";
  CHECK(post_training_splits(loop_scenario()).empty());
  const std::vector<PostTrainingSplit> splits = post_training_splits(loop_scenario(
      {{"post_training.prompts", "16"}, {"cluster.nodes", "4"}, {"post_training.generation.nodes", "2"}}, name));
  REQUIRE(splits.size() == 3);
  for (std::size_t i = 0; i < splits.size(); ++i) {
    CAPTURE(splits[i].nodes, splits[i].error);
    CHECK(splits[i].generation_gpus + splits[i].training_gpus == 32);
    if (i > 0 && splits[i].error.empty()) CHECK(splits[i - 1].step_time.value <= splits[i].step_time.value);
  }
  CHECK(splits.front().error.empty());
}

TEST_CASE("an impossible loop is refused with its place and the nearest value", "[post-training]") {
  check_loop_refused({{"post_training.generation.nodes", "2"}}, "none is left to train; expected at most 1");
  check_loop_refused({{"post_training.schedule", "one-step-off"}}, "expected post_training.generation.nodes");
  check_loop_refused({{"post_training.answer_tokens.most", "5000"}}, "or post_training.answer_tokens.most: 3986");
  check_loop_refused({{"post_training.answer_tokens.mean", "3986"}}, "leaves no room for shorter answers");
  check_loop_refused({{"post_training.generation.tensor_parallel", "3"}}, "nearest: 2");
  check_loop_refused({{"plan.global_batch_size", "500"}}, "nearest: 256 or 512");
  check_loop_refused({{"post_training.generation.memory_share", "0.2"}},
                     "nearest: tensor_parallel: 2 or memory_share: 0.23");
  for (const auto& [key, value] : Overrides{{"tensor_parallel", "2"}, {"memory_share", "0.23"}}) {
    const Scenario s =
        loop_scenario({{"post_training.generation.memory_share", "0.2"}, {"post_training.generation." + key, value}});
    CHECK_NOTHROW(generation_costs(*s.post_training, s.model.entry));
  }
  check_loop_refused({{"post_training.generation.engine", "vlm"}}, "did you mean \"vllm\"?");
  check_loop_refused({{"post_training.promts", "3"}}, "promts");
  check_loop_refused({{"plan.mode", "inference"}, {"plan.recompute", "null"}, {"plan.data_parallel", "null"}},
                     "post_training: only for training");
  check_loop_refused({{"plan.step_time", "3 s"}}, "plan.step_time: not modelled with post_training");
  check_loop_refused({{"cluster.node", "dgx-a100"}, {"post_training.generation.precision", "fp8"}},
                     "has no fp8; expected bf16");
}

TEST_CASE("engines, stacks and transfers of the catalog have sourced figures", "[post-training][catalog]") {
  const Catalog catalog;
  const auto check = [](const Sources& sources) {
    CHECK_FALSE(sources.empty());
    for (const FigureSource& figure : sources) {
      CAPTURE(figure.figure);
      CHECK_FALSE(figure.source.empty());
    }
  };
  for (const std::string& name : catalog.names("engine")) {
    const Engine engine = read_engine(catalog.resolve("engine", Node::scalar_node(name)));
    CAPTURE(name);
    CHECK_FALSE(engine.release.empty());
    CHECK(engine.kernels.contains("hopper"));
    check(engine.sources);
  }
  for (const std::string& name : catalog.names("weight-transfer"))
    check(read_weight_transfer(catalog.resolve("weight-transfer", Node::scalar_node(name))).sources);
  for (const std::string& name : catalog.names("rl-stack")) {
    const RlStack stack = read_rl_stack(catalog.resolve("rl-stack", Node::scalar_node(name)));
    check(stack.sources);
    for (const std::string& transfer : {stack.colocated_transfer, stack.apart_transfer})
      CHECK(read_weight_transfer(catalog.resolve("weight-transfer", Node::scalar_node(transfer))).name == transfer);
  }
}

TEST_CASE("measured loops are predicted, and constants are fitted with each model and release left out",
          "[post-training]") {
  const PostTrainingErrors errors = post_training_errors();
  CHECK(errors.runs.size() == 18);
  CHECK(holds(errors.limits, errors.in_sample));
  // The figures of the manual (post-training.md) and of the README.
  CHECK(errors.in_sample.mean_abs == Approx(0.051).margin(0.0006));
  CHECK(errors.release_left_out.mean_abs == Approx(0.082).margin(0.0006));
  CHECK(errors.model_left_out.mean_abs == Approx(0.059).margin(0.0006));
  CHECK(errors.release_left_out.n == 18);
  CHECK(errors.training_half.n == 5);  // of Llama 3 8B and Qwen3 32B
  CHECK(errors.training_half.mean_abs == Approx(0.041).margin(0.0006));
  // A new fit has the constants of the catalog, which the manual states.
  CHECK(errors.catalog.colocated_tensor == Approx(1.36e-3));
  CHECK(errors.catalog.apart_tensor == Approx(0.8e-3));
  CHECK(errors.fitted.loop_sample == Approx(errors.catalog.loop_sample).epsilon(0.01));
  CHECK(errors.fitted.reload == Approx(errors.catalog.reload).epsilon(0.01));
  CHECK(errors.fitted.colocated_tensor == Approx(errors.catalog.colocated_tensor).epsilon(0.01));
  CHECK(errors.fitted.apart_tensor == Approx(errors.catalog.apart_tensor).epsilon(0.01));
  for (const LoopRun& run : errors.runs)
    CHECK(errors.catalog.step_time(run) == Approx(run.predicted.step_time.value).epsilon(1e-9));
  const auto share = [](const LoopRun& run) { return fitted_share(run.predicted); };
  CHECK(share(std::ranges::max(errors.runs, {}, share)) == Approx(kMostFittedShare).margin(0.004));
  for (const ErrorSet& transfer : errors.transfers) CHECK(transfer.mean_abs < 0.12);
  // The figures of the manual (post-training.md). Nothing is fitted to the first set; the other two have a fitted row.
  REQUIRE(errors.compared_transfers.size() == 3);
  for (const ErrorSet& transfer : errors.compared_transfers) CHECK(transfer.mean_abs < 0.2);
  const ErrorSet &nccl = errors.compared_transfers[0], &buckets = errors.compared_transfers[1];
  REQUIRE(nccl.n == 3);
  REQUIRE(buckets.n == 2);
  CHECK(nccl.points[1].error() == Approx(0.04).margin(0.02));
  CHECK(nccl.points[2].error() == Approx(-0.05).margin(0.02));
  CHECK(buckets.points[1].error() == Approx(-0.03).margin(0.02));

  INFO(
      "the table is written by: trainyard validate post-training --csv "
      "scenarios/measured/tables/left_out_post_training.csv");
  const LoopDoubt& doubt = LoopDoubt::shipped();
  REQUIRE(doubt.rows().size() == errors.model_left_out.points.size());
  for (std::size_t i = 0; i < doubt.rows().size(); ++i) {
    CHECK(doubt.rows()[i].id == errors.model_left_out.points[i].id);
    CHECK(doubt.rows()[i].predicted == Approx(errors.model_left_out.points[i].predicted).epsilon(0.005));
    CHECK(doubt.rows()[i].measured == errors.model_left_out.points[i].measured);
  }
  // The figures of the manual (post-training.md).
  CHECK(doubt.models() == 4);
  CHECK(doubt.factor(0.8) == Approx(1.187).margin(0.005));
  CHECK(doubt.covered_steps(0.8) >= 14);
}

TEST_CASE("a factor of the doubt covers the share of steps that its probability states", "[post-training]") {
  std::vector<LeftOutLoop> rows;
  for (int i = 1; i <= 9; ++i)
    rows.push_back({"", i < 5 ? "a" : "b", i % 2 == 0 ? 1 + 0.1 * i : 1, i % 2 == 0 ? 1 : 1 + 0.1 * i});
  const LoopDoubt doubt(rows);
  CHECK(doubt.factor(0.5) == Approx(1.5));
  CHECK(doubt.factor(0.8) == Approx(1.8));
  CHECK(doubt.factor(0.99) == Approx(1.9));
  CHECK(doubt.one_sided_factor(0.9) == Approx(1.8));
  CHECK(doubt.one_sided_factor(0.5) == 1);
  CHECK(doubt.models() == 2);
  CHECK(doubt.covered_steps(0.8) == 4);  // the steps of a; those of b are further away than any step of a
}

TEST_CASE("a loop has an interval, and says what no measured loop has", "[post-training]") {
  PostTrainingResult r = simulated_loop();
  CHECK_FALSE(r.likely_step_times);
  add_loop_interval(loop_scenario(), r);
  CHECK(r.likely_step_times->at(0) < r.step_time.value);
  CHECK(r.likely_step_times->at(1) > r.step_time.value);
  CHECK(r.likely_samples->at(0) * r.likely_step_times->at(1) == Approx(64 * 32));
  CHECK(r.unmeasured.empty());
  PostTrainingResult small = simulated_loop({{"post_training.prompts", "16"}});  // the reload is as long as before
  add_loop_interval(loop_scenario(), small);
  CHECK(small.unmeasured == "so large a part of the step in loop and reload");
  CHECK(unmeasured_loop_parts(loop_scenario({{"cluster.node", "dgx-h200"},
                                             {"post_training.critic", "{}"},
                                             {"post_training.generation.nodes", "1"},
                                             {"post_training.schedule", "asynchronous"}})) ==
        "an asynchronous schedule, a critic, h200-sxm-141gb");
}

}  // namespace scenarios_test_post_training
