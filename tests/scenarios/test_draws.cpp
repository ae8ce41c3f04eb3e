// Random slow-downs for each rank and step: consecutive steps, and ranks that share draws.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/fold_check.hpp"
#include "scenarios/src/studies/measured/doubt_answer.hpp"
#include "sim/error.hpp"
#include "tests/scenarios/random_scenarios.hpp"

namespace scenarios_test_draws {

using namespace trainyard;

namespace {

std::string shipped(const std::string& name) { return std::string(TRAINYARD_SOURCE_DIR) + "/scenarios/" + name; }

Result run_with(const Scenario& s, DrawSharing draws) {
  SimulateOptions options{.critical_path = false, .draws = draws};
  if (draws == DrawSharing::each_rank) options.folding = Folding::off;
  return simulate(s, options);
}

std::string lognormal(const std::string& sigma, int seed = 1) {
  return "{stragglers: {kind: lognormal, sigma: " + sigma + ", seed: " + std::to_string(seed) + "}}";
}

/// Plans whose ranks can share draws, and some whose ranks cannot.
class DrawnScenarios : test::RandomDraws {
 public:
  using RandomDraws::RandomDraws;

  std::string next() {
    const int nodes = 1 << below(4);
    std::string text =
        "cluster: {nodes: " + std::to_string(nodes) + ", node: " + one_of({"dgx-a100", "dgx-h100", "pcie-4"});
    if (nodes > 1) text += ", fabric: " + one_of({"nonblocking", "rail-optimized", "leaf-spine"});
    text += "}\nmodel: " + one_of({"{base: gpt2, n_layer: 8}", "{base: bert-base, num_hidden_layers: 8}",
                                   "{base: mixtral-8x7b, num_hidden_layers: 4}"});
    text += "\nsoftware: " + one_of({"plain", "pytorch-ddp", "megatron-core"});
    text += "\nplan:\n  global_batch_size: " + one_of({"256", "128"}) + "\n  micro_batch_size: " + one_of({"1", "2"});
    text += "\n  precision: bf16\n  steps: " + one_of({"1", "2", "3"});
    if (below(3) > 0) text += "\n  tensor_parallel: " + std::to_string(1 << below(4));
    if (below(5) == 0) text += "\n  context_parallel: 2";
    if (below(4) == 0) text += "\n  expert_parallel: " + one_of({"2", "4"});
    if (below(3) > 0) {
      text += "\n  pipeline_parallel: " + std::to_string(2 << below(2));
      text += "\n  pipeline: {schedule: " + one_of({"1f1b", "gpipe", "zero-bubble-h1", "interleaved-1f1b, chunks: 2"}) +
              "}";
    }
    text += "\n  collectives: " + one_of({"modelled", "modelled", "messages", "flows"});
    text += "\n  data_parallel: " + one_of({"{}", "{}", "{overlap: false}", "{zero_stage: 1}", "{zero_stage: 2}",
                                            "{zero_stage: 3}", "{all_reduce: ring}", "{delay: 1}"});
    text += "\nfaults: {stragglers: [{" +
            one_of({"kind: lognormal, sigma: 0.03", "kind: lognormal, sigma: 0.1", "kind: lognormal, sigma: 0.3",
                    "kind: uniform, spread: 0.2", "kind: exponential-tail, mean: 0.1"}) +
            ", seed: " + std::to_string(below(1000)) + "}" +
            one_of({"", "", ", {kind: one-slow, rank: 0, factor: 1.3}", ", {kind: constant, factor: 1.2}"}) + "]}";
    return text + "\n";
  }
};

struct CaseCounts {
  int sharing = 0, not_sharing = 0;
};

CaseCounts check_random_draws(unsigned seed, int target, int most_ranks) {
  DrawnScenarios scenarios(seed);
  CaseCounts count;
  for (int i = 0; count.sharing < target && i < 60 * target; ++i) {
    const std::string text = scenarios.next();
    CAPTURE(i, text);
    try {
      const Scenario s = read_scenario_text(text, "random.yaml");
      if (s.ranks() > most_ranks) continue;
      const FoldCheck check = check_folding(s, plan(s));
      if (check.shared_draws.empty()) {
        ++count.not_sharing;
        continue;
      }
      ++count.sharing;
      CAPTURE(check.shared_draws, check.draws_time, check.draws_energy);
      CHECK((check.difference.empty() || check.rounding_decides()));
      CHECK(std::abs(check.draws_time) <= check.most_of_draws);
    } catch (const UserError&) {
    }
  }
  return count;
}

}  // namespace

TEST_CASE(
    "slow-downs of nearly nothing do not change the step, which includes the work that it leaves to the next step",
    "[draws][steady]") {
  const std::vector<std::pair<const char*, Overrides>> cases{
      {"llama3-70b-tp8-pp4.yaml", {{"plan.data_parallel.overlap_parameters", "false"}}},
      {"llama3-70b-tp8-pp4.yaml", {{"plan.data_parallel.overlap_parameters", "true"}}},
      {"mixtral-ep8.yaml", {}},
      {"zero-offload-v100.yaml", {}},
      {"gpt2-xl-ddp-dgx-a100.yaml", {}},
      {"gpt2-xl-ddp-dgx-a100.yaml", {{"plan.data_parallel.zero_stage", "1"}}},
      {"gpt2-xl-ddp-dgx-a100.yaml", {{"plan.data_parallel.zero_stage", "2"}}},
      {"resnet50-4xv100-pcie.yaml", {}},
      {"bert-large-ddp-8xh100.yaml", {}},
      {"wide-narrow-stages.yaml", {}},
  };
  for (const auto& [file, sets] : cases) {
    CAPTURE(file, sets.empty() ? "" : sets.front().first + "=" + sets.front().second);
    const double time_without_draws = simulate(read_scenario(shipped(file), sets)).step_time.value;
    for (const char* steps : {"1", "3"}) {
      Overrides changes = sets;
      changes.emplace_back("faults", lognormal("1e-9"));
      changes.emplace_back("plan.steps", steps);
      const Scenario s = read_scenario(shipped(file), changes);
      for (const DrawSharing draws : {DrawSharing::each_rank, DrawSharing::sharing}) {
        const Result r = run_with(s, draws);
        CAPTURE(steps, r.shared_draws, r.unfolded_reason);
        CHECK(r.step_time.value == Approx(time_without_draws).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("ranks that share draws take the step time of ranks with draws of their own, within a thousandth",
          "[draws][folding]") {
  for (const int seed : {1, 2}) {
    const Scenario s = read_scenario(shipped("gpt3-175b-1024xa100.yaml"), {{"plan.data_parallel.size", "4"},
                                                                           {"cluster.nodes", "32"},
                                                                           {"plan.global_batch_size", "128"},
                                                                           {"faults", lognormal("0.1", seed)},
                                                                           {"plan.steps", "1"}});
    const Result sharing_run = run_with(s, DrawSharing::sharing), separate_run = run_with(s, DrawSharing::each_rank);
    CAPTURE(sharing_run.shared_draws, sharing_run.unfolded_reason);
    CHECK_FALSE(sharing_run.shared_draws.empty());
    CHECK(sharing_run.simulated_ranks < separate_run.simulated_ranks / 4);
    CHECK(sharing_run.step_time.value == Approx(separate_run.step_time.value).epsilon(1e-3));
    CHECK(sharing_run.energy->step() == Approx(separate_run.energy->step()).epsilon(5e-3));
  }
}

TEST_CASE(
    "a cheap run draws for each rank, and a run whose replicas do not meet in each step says why they share no draws",
    "[draws][folding]") {
  const std::string text =
      "cluster: {nodes: 4, node: dgx-a100, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\n"
      "plan: {global_batch_size: 32, micro_batch_size: 1, data_parallel: {}}\nfaults: " +
      lognormal("0.1") + "\n";
  const Scenario s = read_scenario_text(text, "draws.yaml");
  CHECK(simulate(s).shared_draws == "");
  const Scenario delayed = read_scenario_text(text, "draws.yaml", {{"plan.data_parallel.delay", "1"}});
  const Result r = run_with(delayed, DrawSharing::sharing);
  CHECK(r.shared_draws == "");
  CHECK_THAT(r.unfolded_reason, Catch::Contains("do not sum their gradients in each step"));
}

TEST_CASE("an answer with shared draws says how far off it may be, by the width of the draws", "[draws][folding]") {
  const std::string text =
      "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 8}\n"
      "software: pytorch-ddp\nplan: {global_batch_size: 128, micro_batch_size: 1, precision: bf16, steps: 1, "
      "pipeline_parallel: 4, pipeline: {schedule: interleaved-1f1b, chunks: 2}, collectives: flows, data_parallel: "
      "{}}\n"
      "faults: " +
      lognormal("0.1", 570) + "\n";
  const Scenario s = read_scenario_text(text, "draws.yaml");
  const FoldCheck check = check_folding(s, plan(s));
  CAPTURE(check.shared_draws, check.draws_time, check.most_of_draws);
  // The slowest replica is not the slowest in each stage, so sharing makes the step 7.6 % too short.
  CHECK(check.draws_time < -SlowestReplicas::kLeastEstimateError);
  CHECK(std::abs(check.draws_time) <= check.most_of_draws);
  CHECK(check.most_of_draws < 0.2);
  CHECK_THAT(check.shared_draws, Catch::Contains("the step may be ") && Catch::Contains(" % off"));
  const Scenario exact = read_scenario_text(
      "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 8}\nplan: {global_batch_size: 32, micro_batch_size: 1, "
      "tensor_parallel: 4, collectives: modelled, steps: 1, data_parallel: {}}\nfaults: " +
          lognormal("0.1") + "\n",
      "exact.yaml");
  const FoldCheck exact_check = check_folding(exact, plan(exact));
  CAPTURE(exact_check.shared_draws, exact_check.unfolded_reason, exact_check.draws_time);
  CHECK(exact_check.most_of_draws == SlowestReplicas::kExactError);
  CHECK_THAT(exact_check.shared_draws, !Catch::Contains("off"));
}

TEST_CASE("a large run that is not folded takes consecutive kernels as one operation, and answers the same",
          "[draws][folding]") {
  const Scenario s = read_scenario_text(
      "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 12, n_embd: 4096, n_head: 32}\n"
      "software: megatron-core\nplan: {global_batch_size: 112, micro_batch_size: 1, precision: bf16, tensor_parallel: "
      "4, data_parallel: {}}\n"
      "faults: {stragglers: {kind: one-slow, rank: 5, factor: 1.4}}\n",
      "fused.yaml");
  SimulateOptions options{.folding = Folding::off};
  const Result fused = simulate(s, options);
  options.path_pieces = true;  // keeps every kernel
  const Result unfused = simulate(s, options);
  CHECK(fused.step_time.value == Approx(unfused.step_time.value).epsilon(1e-9));
  CHECK(fused.operations == unfused.operations);
  REQUIRE(fused.critical_path.size() == unfused.critical_path.size());
  for (const auto& [resource, seconds] : unfused.critical_path) {
    CAPTURE(resource);
    CHECK(fused.critical_path.at(resource) == Approx(seconds).margin(2e-3 * unfused.step_time.value));
  }
  CHECK(fused.critical_path.at("framework") < 0.1 * fused.step_time.value);  // a slow GPU does not slow its host
}

TEST_CASE("in a ring of too many ranks to simulate, all ranks take the factor of the slow one", "[draws][folding]") {
  const std::string text =
      "model: {base: gpt2, n_layer: 2}\nsoftware: pytorch-ddp\nfaults: {stragglers: {kind: one-slow, rank: 5, factor: "
      "1.5}}\n"
      "plan: {micro_batch_size: 4, precision: bf16, data_parallel: {bucket: 10 GB, all_reduce: {algorithm: ring, "
      "fidelity: messages}}}\ncluster: {node: dgx-h100, fabric: nonblocking, nodes: ";
  const Scenario small_ring = read_scenario_text(text + "4}\n", "slow.yaml");
  SimulateOptions options{.critical_path = false};
  const Result separate_run = simulate(small_ring, options);
  CHECK(separate_run.simulated_ranks == 32);
  CHECK(separate_run.shared_draws == "");
  options.draws = DrawSharing::one_replica;
  const Result sharing_run = simulate(small_ring, options);
  CHECK(sharing_run.simulated_ranks < 32);
  CHECK(sharing_run.step_time.value >= separate_run.step_time.value * (1 - 1e-9));  // no rank gets faster
  CHECK(sharing_run.step_time.value == Approx(separate_run.step_time.value).epsilon(0.05));
  CHECK_FALSE(sharing_run.drawn_steps.has_value());
  options.draws = DrawSharing::automatic;
  const Result large_run = simulate(read_scenario_text(text + "800}\n", "slow.yaml"), options);
  CHECK(large_run.simulated_ranks == sharing_run.simulated_ranks);
  CHECK_THAT(large_run.shared_draws, Catch::Contains("as slow as the slowest") && Catch::Contains(" % off"));
}

TEST_CASE("the mean of further draws is the same from one simulated step and from several, and with other seeds",
          "[draws][folding]") {
  // The optimizer takes a tenth of the step. A recurrence that left it out of the first step was off by as much.
  const auto drawn = [](int steps, int seed) {
    const Scenario s = read_scenario_text(
        "cluster: {nodes: 128, node: dgx-a100, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 4}\n"
        "software: plain\nplan: {micro_batch_size: 1, precision: bf16, optimizer: adamw, steps: " +
            std::to_string(steps) + "}\nfaults: " + lognormal("0.1", seed) + "\n",
        "drawn.yaml");
    const Result r = run_with(s, DrawSharing::some_replicas);
    REQUIRE(r.drawn_steps.has_value());
    return *r.drawn_steps;
  };
  std::vector<DrawnSteps> all;
  for (int seed = 1; seed <= 4; ++seed) all.push_back(drawn(1, seed));
  for (const int steps : {2, 4, 8}) all.push_back(drawn(steps, 1));
  for (const DrawnSteps& a : all)
    for (const DrawnSteps& b : all) {
      CAPTURE(a.mean.value, a.half_width.value, b.mean.value, b.half_width.value);
      CHECK(std::abs(a.mean.value - b.mean.value) <= a.half_width.value + b.half_width.value);
    }
}

TEST_CASE("shared draws and draws of each rank agree, over random scenarios", "[draws][folding]") {
  CHECK(check_random_draws(5, 12, 32).sharing == 12);
}

TEST_CASE("shared draws and draws of each rank agree in five hundred random scenarios", "[draws][folding][.deep]") {
  const CaseCounts count = check_random_draws(55, 500, 64);
  CHECK(count.sharing == 500);
  CHECK(count.not_sharing > 0);
}

TEST_CASE("the interval takes in how little a few drawn steps say about their mean", "[coverage]") {
  const Scenario s = read_scenario(shipped("llama3-8b-fsdp-64xh100.yaml"), {{"faults", lognormal("0.5")}});
  const Result few = answer(s).result;
  REQUIRE(few.step_time_interval);
  Result sure = few;
  sure.step_time_interval.reset();
  const auto deviation = [&s](const Result& r) {
    return std::log(DoubtModel::shipped().range(step_doubt(s, r), kLikely).high);
  };
  CHECK(deviation(few) == Approx(std::hypot(deviation(sure), drawn_deviation(few))));
  CHECK(drawn_deviation(few) == Approx(std::log1p(0.65386 * (*few.step_time_interval / few.step_time))).epsilon(1e-3));
  CHECK(drawn_deviation(sure) == 0);
  const DoubtAnswer doubt = explain_doubt(s, few);
  const auto drawn = std::ranges::find_if(
      doubt.measurements, [](const auto& m) { return m.words.find("more plan.steps") != std::string::npos; });
  REQUIRE(drawn != doubt.measurements.end());
  CHECK(std::asinh(drawn->half_width) == Approx(deviation(sure)).epsilon(0.02));
}

}  // namespace scenarios_test_draws
