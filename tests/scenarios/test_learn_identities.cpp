// Pairs of trainings that must learn the same, because the mechanism or compressor has settings that change nothing.
#include <cmath>
#include <set>

#include "scenarios/src/studies/sweeps/learn_study.hpp"
#include "strategies/compression/compressor.hpp"
#include "tests/scenarios/learned.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_learn_identities {

using namespace trainyard;
using namespace trainyard::test;

namespace {

Learned learned_with(const std::string& data_parallel, const std::string& optimizer = "momentum") {
  Learned training;
  training.data_parallel = data_parallel;
  training.optimizer = optimizer;
  return training;
}

/// Returns the largest relative difference of the losses at equal evaluations.
double largest_difference(const Learned& a, const Learned& b) {
  const LearnResult first = a.run(), second = b.run();
  REQUIRE(first.points.size() == second.points.size());
  CHECK(first.last().loss < 0.8 * first.points.front().loss);
  double worst = 0;
  for (std::size_t i = 0; i < first.points.size(); ++i)
    worst = std::max(worst, std::abs(first.points[i].loss - second.points[i].loss) / first.points[i].loss);
  return worst;
}

Learned compressed(const std::string& compression) {
  return learned_with("all_reduce: ring, compression: " + compression);
}

const std::string kServers = "mechanism: parameter-server, servers: {count: 2, place: dedicated}";
constexpr double kExact = 1e-10;
constexpr double kFp32 = 1e-5;  // numbers are sent in fp32

}  // namespace

TEST_CASE("every optimizer learns, and the same on one rank and on four", "[learn]") {
  for (const Optimizer& optimizer : optimizers()) {
    CAPTURE(optimizer.name);
    Learned four = learned_with("all_reduce: ring", optimizer.name), one = four;
    const UpdateRule rule = four.scenario().learn.rule;
    if (rule.is_adaptive()) four.learn += ", learning_rate: 0.02";
    if (optimizer.name == "lars") four.learn += ", trust: 0.02";
    one.learn = four.learn;
    one.ranks = 1;
    one.samples = four.ranks * four.samples;
    CHECK(largest_difference(four, one) <= kExact);
  }
}

TEST_CASE("optimizers of whole matrices are refused with servers, whose updates are of slices", "[learn][errors]") {
  for (const Optimizer& optimizer : optimizers()) {
    CAPTURE(optimizer.name);
    const Learned training = learned_with(kServers, optimizer.name);
    const bool needs_matrices =
        learned_with("all_reduce: ring", optimizer.name).scenario().learn.rule.part() == UpdateRule::Part::matrix;
    const std::string error = user_error([&] { training.scenario(); });
    CHECK(error.empty() != needs_matrices);
    if (needs_matrices)
      CHECK_THAT(error, Catch::Matchers::Contains("learned.yaml:3") &&
                            Catch::Matchers::Contains("plan.optimizer: " + optimizer.name + " ") &&
                            Catch::Matchers::Contains("nearest: \"adamw\""));
  }
}

TEST_CASE("keys of learn that the optimizer does not have are refused", "[learn][errors]") {
  const auto refused = [](const std::string& optimizer, const std::string& key) {
    Learned training = learned_with("all_reduce: ring", optimizer);
    training.learn += ", " + key + ": 0.5";
    return user_error([&] { training.scenario(); }).find("plan.optimizer is " + optimizer) != std::string::npos;
  };
  for (const char* key : {"beta1", "beta2", "epsilon"}) {
    CHECK(refused("adafactor", key));
    for (const char* optimizer : {"muon", "shampoo", "soap", "adam8bit", "adamw8bit", "lamb"})
      CHECK_FALSE(refused(optimizer, key));
  }
  for (const char* optimizer : {"adafactor", "shampoo", "soap", "adam8bit", "adamw8bit"})
    CHECK(refused(optimizer, "momentum"));
  CHECK_FALSE(refused("muon", "momentum"));
  CHECK(learned_with("all_reduce: ring", "muon").scenario().learn.rule.momentum == 0.95);
  CHECK(learned_with("all_reduce: ring", "adafactor").scenario().learn.rule.learning_rate == 0.01);
  CHECK(learned_with("all_reduce: ring", "soap").scenario().learn.rule.learning_rate == 0.001);
}

TEST_CASE("a small network that compression shrinks less than the timed one is named", "[learn]") {
  const auto training_with = [](const std::string& compression) {
    return Learned{.data_parallel = "bucket_boundaries: tensors, compression: " + compression};
  };
  for (const char* compression : {"{name: top-k, density: 0.01}", "{name: powersgd, rank: 8}"}) {
    CAPTURE(compression);
    const Learned training = training_with(compression);
    const Scenario s = training.scenario();
    LearnVariant variant;
    variant.runs = {training.run()};
    const LearnResult& r = variant.runs.front();
    const std::string text = learn_report(s, variant, 1);
    CHECK((r.sent_share >= 2 * r.timed_sent_share) ==
          (text.find("of the gradients of the small network") != std::string::npos));
  }
  const LearnResult plain = Learned{}.run(), sparse = training_with("{name: top-k, density: 0.01}").run(),
                    low_rank = training_with("{name: powersgd, rank: 8}").run();
  CHECK(plain.sent_share == 1);
  CHECK(sparse.sent_share < 2 * sparse.timed_sent_share);
  CHECK(low_rank.sent_share == Approx(1));  // no matrix of it is compressed
  CHECK(low_rank.last().loss == Approx(plain.last().loss).epsilon(1e-5));
  CHECK(low_rank.timed_sent_share < 0.1);
}

TEST_CASE("a compressor that sends everything learns what plain gradients learn", "[learn]") {
  struct WholeSetting {
    std::string name, compression;
    double tolerance = kFp32;
  };
  const std::vector<WholeSetting> all{
      {"top-k", "{name: top-k, density: 1}"},
      {"top-k", "{name: top-k, density: 1, sample: 0.01}"},
      {"top-k", "{name: top-k, density: 1, exchange: ring}"},
      {"random-k", "{name: random-k, density: 1}"},
      {"dgc", "{name: dgc, density: 1, momentum_masking: false}"},
      {"dgc", "{name: dgc, density: 1, momentum_correction: false}"},
      {"powersgd", "{name: powersgd, rank: 64, min_compression_rate: 1}"},
      {"qsgd", "{name: qsgd, levels: 1048576}", 1e-3},
      {"fp16", "fp16", 0.02},
      {"bf16", "bf16", 0.05},
  };
  // These compressors have no setting that sends whole gradients.
  std::set<std::string> judged{"1-bit", "terngrad", "sign", "fp8", "threshold"};
  for (const WholeSetting& setting : all) {
    CAPTURE(setting.compression);
    Learned training = compressed(setting.compression);
    if (setting.name == "powersgd") training.data_parallel += ", bucket_boundaries: tensors";
    if (training.data_parallel.find("exchange: ring") != std::string::npos) training.plan = ", collectives: messages";
    CHECK(largest_difference(learned_with("all_reduce: ring"), training) <= setting.tolerance);
    judged.insert(setting.name);
  }
  for (const std::string& name : compressors().names()) {
    CAPTURE(name);
    CHECK(judged.contains(name));
  }
}

TEST_CASE("servers whose workers push everything learn what plain gradients learn", "[learn]") {
  for (const std::string compression :
       {"{name: top-k, density: 1}", "{name: dgc, density: 1, momentum_masking: false}"}) {
    CAPTURE(compression);
    CHECK(largest_difference(learned_with(kServers), learned_with(kServers + ", compression: " + compression)) <=
          kFp32);
  }
}

TEST_CASE("momentum that the compressor applies is not applied again", "[learn]") {
  const std::string dgc = "{name: dgc, density: 1, sample: 0, ";
  // Weight decay is no part of the gradients that are sent.
  Learned dense = learned_with("all_reduce: ring"), corrected = compressed(dgc + "momentum_masking: false}");
  dense.learn += ", weight_decay: 0.01";
  corrected.learn += ", weight_decay: 0.01";
  CHECK(largest_difference(dense, corrected) <= kFp32);
  // Masking removes all momentum if everything is sent.
  CHECK(largest_difference(learned_with("all_reduce: ring", "sgd"), compressed(dgc + "momentum_masking: true}")) <=
        kFp32);
  // DGC without the correction is top-k, and the optimizer applies the momentum.
  CHECK(largest_difference(compressed("{name: top-k, density: 0.05}"),
                           compressed("{name: dgc, density: 0.05, sample: 0, momentum_correction: false}")) <= kExact);
  const auto check_refusal = [](Learned training, const std::string& error) {
    CHECK_THROWS_WITH(training.scenario(), Catch::Contains("learned.yaml:") && Catch::Contains(error));
  };
  Learned other = compressed(dgc + "momentum: 0.5}");
  other.learn += ", momentum: 0.9";
  check_refusal(other, "learn.momentum: 0.9, but plan.data_parallel.compression.momentum is 0.5");
  Learned clipped = compressed(dgc + "momentum_masking: false}");
  clipped.learn += ", clip: 1";
  check_refusal(clipped, "learn.clip: would clip momentum");
  Learned adam = compressed(dgc + "momentum_masking: false}");
  adam.optimizer = "adam";
  check_refusal(adam, "the correction is for optimizer: momentum");
  check_refusal(compressed("{name: dgc, density: 1, momentum_correction: false, momentum: 0.5}"),
                "with momentum_correction");
}

TEST_CASE("a mechanism that changes nothing learns what an all-reduce learns", "[learn]") {
  for (const std::string optimizer : {"sgd", "momentum"}) {
    CAPTURE(optimizer);
    const Learned all_reduce = learned_with("all_reduce: ring", optimizer);
    for (const std::string mechanism : {"mechanism: local-sgd, local_steps: 1", "delay: 0", "compression: none",
                                        "gossip: {edges: [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]}"}) {
      CAPTURE(mechanism);
      CHECK(largest_difference(all_reduce, learned_with(mechanism, optimizer)) <= kExact);
    }
    CHECK(largest_difference(all_reduce, learned_with(kServers + ", backup_workers: 0", optimizer)) <= kExact);
    const std::string asynchronous = kServers + ", consistency: asynchronous";
    CHECK(largest_difference(learned_with(asynchronous, optimizer),
                             learned_with(asynchronous + ", worker_weights: [1, 1, 1, 1]", optimizer)) == 0);
  }
  // A server with bounded staleness applies each gradient alone, which is the same only without momentum.
  CHECK(largest_difference(learned_with(kServers, "sgd"),
                           learned_with(kServers + ", consistency: stale, staleness: 0", "sgd")) <= kExact);
}

TEST_CASE("one worker alone learns the same with each mechanism", "[learn]") {
  const auto one_worker = [](const std::string& mechanism) {
    Learned training = learned_with(mechanism);
    training.ranks = 1;
    return training;
  };
  for (const std::string mechanism :
       {"mechanism: parameter-server, servers: 1", "mechanism: parameter-server, servers: 1, consistency: asynchronous",
        "mechanism: parameter-server, servers: 1, consistency: stale, staleness: 3"}) {
    CAPTURE(mechanism);
    CHECK(largest_difference(one_worker("all_reduce: ring"), one_worker(mechanism)) <= kExact);
  }
}

TEST_CASE("a worker's weight scales its gradients", "[learn]") {
  const std::string asynchronous = kServers + ", consistency: asynchronous";
  Learned half_weights = learned_with(asynchronous + ", worker_weights: [0.5, 0.5, 0.5, 0.5]", "sgd"),
          half_rate = learned_with(asynchronous, "sgd");
  half_weights.learn += ", learning_rate: 0.4";
  half_rate.learn += ", learning_rate: 0.2";
  CHECK(largest_difference(half_rate, half_weights) <= kExact);
  CHECK(half_weights.run().mean_lambda == 0.5);
  // Mixing shares are no weights: with a share of 1, a push replaces what other workers have learned.
  CHECK(learned_with(asynchronous + ", mixing_shares: [1, 1, 1, 1]", "sgd").mean_loss() >
        1.05 * learned_with(asynchronous, "sgd").mean_loss());
}

TEST_CASE("replicas diverge without the second half of their exchange", "[learn]") {
  Learned complete = learned_with("all_reduce: ring"), incomplete = complete;
  incomplete.learn += ", leave_out: all-gather";
  const LearnResult complete_result = complete.run(), incomplete_result = incomplete.run();
  CHECK(complete_result.last().replica_distance == 0);
  CHECK(incomplete_result.last().replica_distance > 0.1);
  CHECK(incomplete_result.last().loss > 1.05 * complete_result.last().loss);
  incomplete.ranks = complete.ranks = 1;
  CHECK(incomplete.run().last().loss == Approx(complete.run().last().loss).epsilon(kExact));
  Learned servers = learned_with(kServers);
  servers.learn += ", leave_out: all-gather";
  CHECK_THROWS_WITH(servers.scenario(), Catch::Contains("learn.leave_out: an all-gather is the second half"));
}

TEST_CASE("DiLoCo with a plain outer optimizer averages as local SGD does, and merges with its own outer optimizer too",
          "[learn][diloco]") {
  const std::string plain = ", outer_learning_rate: 1, outer_momentum: 0";
  for (const int period : {1, 2, 4}) {
    CAPTURE(period);
    const std::string diloco = fmt::format("mechanism: diloco, inner_steps: {}", period);
    CHECK(largest_difference(learned_with(fmt::format("mechanism: local-sgd, local_steps: {}", period)),
                             learned_with(diloco + plain)) <= kExact);
    Learned training = learned_with(diloco);
    training.learn = "task: mlp, layers: [16], data: {samples: 512, classes: 4, features: 8}, steps: 5";
    const LearnResult r = training.run();
    CHECK(r.merges == std::ceil(5.0 / period));
    CHECK(r.last().replica_distance < 1e-12);
  }
  // Fragments that are exchanged beside inner steps are merged with what the worker learned meanwhile.
  Learned streaming =
      learned_with("mechanism: diloco, inner_steps: 8, fragments: 2, overlap_steps: 2, outer_momentum: 0.2");
  CHECK(streaming.run().last().loss < 0.9 * streaming.run().points.front().loss);
}

TEST_CASE("background traffic slows a training as adapters of a lower rate do, and changes no loss",
          "[learn][background]") {
  Learned alone = learned_with("all_reduce: ring"), slow = alone;
  slow.rate = "5 Gbit/s";
  const std::string fabric = "fabric: nonblocking";
  std::string text = alone.text();
  text.replace(text.find(fabric), fabric.size(), fabric + ", background: {links: adapters, share: 0.5}");
  const LearnResult shared = learn(read_scenario_text(text, "shared.yaml", {{"learn.seed", "1"}}), {.noise = false});
  CHECK(shared.step_time().value == Approx(slow.run().step_time().value).epsilon(1e-6));
  CHECK(shared.step_time().value > 1.2 * alone.run().step_time().value);
  CHECK(shared.last().loss == alone.run().last().loss);
}

TEST_CASE("at the end of a training with local steps, all replicas are equal", "[learn]") {
  for (const int period : {1, 2, 3, 7}) {
    CAPTURE(period);
    Learned training = learned_with(fmt::format("mechanism: local-sgd, local_steps: {}", period));
    training.learn = "task: mlp, layers: [16], data: {samples: 512, classes: 4, features: 8}, steps: 5";
    const LearnResult r = training.run();
    CHECK(r.merges == std::ceil(5.0 / period));
    CHECK(r.last().steps == 5);
    CHECK(r.last().replica_distance < 1e-12);
  }
}

TEST_CASE("a training that stopped early saves its best weights, and names their step", "[learn]") {
  const TemporaryFolder folder;
  const std::string task = "task: mlp, layers: [64], data: {samples: 64, classes: 4, features: 8, noise: 2}",
                    file = (folder.path() / "weights").string();
  for (const bool stops_early : {true, false}) {
    CAPTURE(stops_early);
    Learned first, second;
    first.learn =
        task + ", steps: 200, evaluate_every: 10" + (stops_early ? ", early_stopping: 3" : "") + ", save: " + file;
    second.learn = task + ", steps: 10, from: " + file;
    const LearnResult before = learn(first.scenario(), {.saves = true});
    const LearnPoint& saved = stops_early ? before.best() : before.last();
    CHECK(before.best().steps < before.last().steps);
    CHECK(before.saved_step == saved.steps);
    CHECK(second.run().points.front().loss == saved.loss);
  }
}

}  // namespace scenarios_test_learn_identities
