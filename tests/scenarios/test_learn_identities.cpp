// Trainings that must learn the same, because the mechanism or compressor has settings that change nothing.
#include <cmath>
#include <set>

#include "strategies/compression/compressor.hpp"
#include "tests/scenarios/learned.hpp"

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

/// The largest relative difference of the losses at equal evaluations.
double largest_difference(const Learned& a, const Learned& b) {
  const LearnResult one = a.run(), other = b.run();
  REQUIRE(one.points.size() == other.points.size());
  CHECK(one.last().loss < 0.8 * one.points.front().loss);
  double worst = 0;
  for (std::size_t i = 0; i < one.points.size(); ++i)
    worst = std::max(worst, std::abs(one.points[i].loss - other.points[i].loss) / one.points[i].loss);
  return worst;
}

Learned compressed(const std::string& compression) {
  return learned_with("all_reduce: ring, compression: " + compression);
}

const std::string kServers = "mechanism: parameter-server, servers: {count: 2, place: dedicated}";
constexpr double kExact = 1e-10;
constexpr double kFp32 = 1e-5;  // numbers are sent in fp32

}  // namespace

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
  // No setting of these sends whole gradients.
  std::set<std::string> judged{"1-bit", "terngrad", "sign", "fp8", "threshold"};
  for (const WholeSetting& whole : all) {
    CAPTURE(whole.compression);
    Learned training = compressed(whole.compression);
    if (whole.name == "powersgd") training.data_parallel += ", bucket_boundaries: tensors";
    if (training.data_parallel.find("exchange: ring") != std::string::npos) training.plan = ", collectives: messages";
    CHECK(largest_difference(learned_with("all_reduce: ring"), training) <= whole.tolerance);
    judged.insert(whole.name);
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
  // With weight decay, which no gradient brings along.
  Learned dense = learned_with("all_reduce: ring"), corrected = compressed(dgc + "momentum_masking: false}");
  dense.learn += ", weight_decay: 0.01";
  corrected.learn += ", weight_decay: 0.01";
  CHECK(largest_difference(dense, corrected) <= kFp32);
  // Masking removes all momentum if everything is sent.
  CHECK(largest_difference(learned_with("all_reduce: ring", "sgd"), compressed(dgc + "momentum_masking: true}")) <=
        kFp32);
  // Without the correction it is top-k, and the optimizer has the momentum.
  CHECK(largest_difference(compressed("{name: top-k, density: 0.05}"),
                           compressed("{name: dgc, density: 0.05, sample: 0, momentum_correction: false}")) <= kExact);
  const auto refused = [](Learned training, const std::string& error) {
    CHECK_THROWS_WITH(training.scenario(), Catch::Contains("learned.yaml:") && Catch::Contains(error));
  };
  Learned other = compressed(dgc + "momentum: 0.5}");
  other.learn += ", momentum: 0.9";
  refused(other, "learn.momentum: 0.9, but plan.data_parallel.compression.momentum is 0.5");
  Learned clipped = compressed(dgc + "momentum_masking: false}");
  clipped.learn += ", clip: 1";
  refused(clipped, "learn.clip: would clip momentum");
  Learned adam = compressed(dgc + "momentum_masking: false}");
  adam.optimizer = "adam";
  refused(adam, "the correction is for optimizer: momentum");
  refused(compressed("{name: dgc, density: 1, momentum_correction: false, momentum: 0.5}"), "with momentum_correction");
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
  const auto alone = [](const std::string& mechanism) {
    Learned training = learned_with(mechanism);
    training.ranks = 1;
    return training;
  };
  for (const std::string mechanism :
       {"mechanism: parameter-server, servers: 1", "mechanism: parameter-server, servers: 1, consistency: asynchronous",
        "mechanism: parameter-server, servers: 1, consistency: stale, staleness: 3"}) {
    CAPTURE(mechanism);
    CHECK(largest_difference(alone("all_reduce: ring"), alone(mechanism)) <= kExact);
  }
}

TEST_CASE("a worker's weight scales its gradients", "[learn]") {
  const std::string asynchronous = kServers + ", consistency: asynchronous";
  Learned half = learned_with(asynchronous + ", worker_weights: [0.5, 0.5, 0.5, 0.5]", "sgd"),
          slow = learned_with(asynchronous, "sgd");
  half.learn += ", learning_rate: 0.4";
  slow.learn += ", learning_rate: 0.2";
  CHECK(largest_difference(slow, half) <= kExact);
  CHECK(half.run().mean_lambda == 0.5);
  // Mixing shares are no weights: with a share of 1, a push replaces what other workers have learned.
  CHECK(learned_with(asynchronous + ", mixing_shares: [1, 1, 1, 1]", "sgd").mean_loss() >
        1.05 * learned_with(asynchronous, "sgd").mean_loss());
}

TEST_CASE("with an exchange left out, replicas diverge", "[learn]") {
  Learned whole = learned_with("all_reduce: ring"), without = whole;
  without.learn += ", leave_out: all-gather";
  const LearnResult together = whole.run(), separate = without.run();
  CHECK(together.last().replica_distance == 0);
  CHECK(separate.last().replica_distance > 0.1);
  CHECK(separate.last().loss > 1.05 * together.last().loss);
  without.ranks = whole.ranks = 1;
  CHECK(without.run().last().loss == Approx(whole.run().last().loss).epsilon(kExact));
  Learned servers = learned_with(kServers);
  servers.learn += ", leave_out: all-gather";
  CHECK_THROWS_WITH(servers.scenario(), Catch::Contains("learn.leave_out: an all-gather is the second half"));
}

TEST_CASE("DiLoCo with a plain outer optimizer averages as local SGD does, and its own one merges too",
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

TEST_CASE("at the end of a training local replicas are equal", "[learn]") {
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

}  // namespace scenarios_test_learn_identities
