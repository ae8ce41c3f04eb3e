// Compressed gradients on timed programs: values equal a plain replay, messages have the size of the encoded gradients,
// and compression has the published effects on learning.
#include <algorithm>
#include <numeric>

#include "tests/strategies/compressed_training.hpp"
#include "tests/support.hpp"

namespace strategies_test_compressed_training {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Number of parameters of the default network: 8 x 16 + 16 + 16 x 12 + 12 + 12 x 3 + 3.
constexpr double kElements = 387;

}  // namespace

TEST_CASE("compressed trainings equal a plain replay bit for bit", "[compression]") {
  for (const char* compression :
       {"", "fp16", "bf16", "fp8", "{name: top-k, density: 0.1}", "{name: top-k, density: 0.1, error_feedback: false}",
        "{name: top-k, density: 0.05, sample: 0.3}", "{name: random-k, density: 0.2}",
        "{name: threshold, threshold: 0.01, density: 0.1}", "{name: dgc, density: 0.1, warmup_steps: 2}", "1-bit",
        "{name: 1-bit, exchange: stripes}", "sign", "terngrad", "{name: qsgd, group_size: 50}",
        "{name: powersgd, rank: 2, min_compression_rate: 1}"})
    for (const int ranks : {2, 4})
      for (const double bucket : {1e9, 300.0}) {
        CAPTURE(compression, ranks, bucket);
        CompressedTraining t;
        t.compression = compression;
        t.ranks = ranks;
        t.steps = 6;
        t.bucket = Bytes{bucket};
        t.momentum = 0.9;
        const Simulated got = simulated(t);
        CHECK(got.difference == 0);
        CHECK(got.hazards == 0);
      }
  CompressedTraining ring;
  ring.steps = 6;
  ring.compression = "{name: top-k, density: 0.1, exchange: ring}";
  ring.all_reduce = "sparse-ring";
  CHECK(simulated(ring).difference <= 1e-12);
}

TEST_CASE("messages of compressed gradients have the size of the encoded gradients", "[compression]") {
  const auto bytes_of_step = [](const std::string& compression, int ranks, const std::string& all_reduce = "ring") {
    CompressedTraining t;
    t.compression = compression;
    t.ranks = ranks;
    t.steps = 3;
    t.all_reduce = all_reduce;
    return simulated(t).bytes / t.steps;
  };
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    const double gathers = ranks * (ranks - 1.0), sums = 2 * (ranks - 1.0);
    CHECK(bytes_of_step("", ranks) == near(sums * 4 * kElements));
    CHECK(bytes_of_step("fp16", ranks) == near(sums * 2 * kElements));
    CHECK(bytes_of_step("{name: top-k, density: 0.1}", ranks) == near(gathers * 39 * 8));
    CHECK(bytes_of_step("{name: random-k, density: 0.1}", ranks) == near(sums * 39 * 4));
    CHECK(bytes_of_step("fp8", ranks) == near(gathers * 4 * (1 + 97)));         // 387 bytes in 97 words, a scale
    CHECK(bytes_of_step("1-bit", ranks) == near(gathers * 4 * (13 + 36 + 3)));  // columns; a bias is one
    CHECK(bytes_of_step("sign", ranks) == near(gathers * 4 * 13));
    CHECK(bytes_of_step("terngrad", ranks) == near(gathers * 4 * (25 + 6)));  // 2 bits each, a scale for each tensor
    CHECK(bytes_of_step("{name: qsgd, group_size: 100}", ranks) == near(gathers * 4 * (49 + 4)));
    // Factors of rank 1: 16 + 8, 12 + 16, 3 + 12, and biases uncompressed.
    CHECK(bytes_of_step("{name: powersgd, rank: 1}", ranks) == near(sums * 4 * (24 + 28 + 15 + 31)));
  }
}

TEST_CASE("on values, the sizes of messages depend on the gradients", "[compression]") {
  CompressedTraining t;
  t.ranks = 4;
  t.steps = 1;
  // All values are above a threshold near 0: counts of 4 bytes, then 387 words each.
  t.compression = "{name: threshold, threshold: 1e-12, density: 0.01}";
  CHECK(simulated(t).bytes == near(4 * 3 * 4 * (1 + kElements)));
  t.compression = "{name: threshold, threshold: 1e12, density: 0.5}";
  CHECK(simulated(t).bytes == near(4 * 3 * 4));
  // Sums of sparse values: each hop sends the nonzero elements, at most all elements in 4 bytes each.
  t.all_reduce = "sparse-ring";
  t.compression = "{name: top-k, density: 1, exchange: ring}";
  CHECK(simulated(t).bytes == near(2 * 3 * 4 * kElements));
  t.compression = "{name: top-k, density: 0.01, exchange: ring}";
  // 4 values per rank: the first hop of the reduce-scatter has 4 x 4 x 8 bytes, later hops more, at most the sums of
  // all.
  const double least = 3 * 16 * 8, most = (16 + 2 * 16 + 3 * 16) * 8 + 3 * 16 * 8;
  const double bytes = simulated(t).bytes;
  CHECK(bytes > least);
  CHECK(bytes <= most);
}

namespace {

/// Results of a training with each of five seeds.
std::vector<Replayed> trainings(CompressedTraining t) {
  std::vector<Replayed> all;
  for (t.seed = 1; t.seed <= 5; ++t.seed) all.push_back(replay(t));
  return all;
}

/// Loss after a share of the steps, divided by the loss at the beginning.
std::vector<double> loss_left(const std::vector<Replayed>& trainings, double share = 1) {
  std::vector<double> all;
  for (const Replayed& t : trainings) {
    const double at = share * static_cast<double>(t.losses.size() - 1);
    all.push_back(t.losses[static_cast<std::size_t>(at)] / t.losses.front());
  }
  return all;
}

double mean(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

/// Is each value of the first list at most `factor` times that of the second?
bool all_below(const std::vector<double>& a, const std::vector<double>& b, double factor = 1) {
  return std::equal(a.begin(), a.end(), b.begin(), [factor](double x, double y) { return x < factor * y; });
}

CompressedTraining small(const std::string& compression) {
  CompressedTraining t;
  t.compression = compression;
  t.steps = 288;
  return t;
}

/// A training of 3,284 parameters: a density of one in a thousand sends 3.
CompressedTraining larger(const std::string& compression, int steps, double learning_rate, double momentum) {
  CompressedTraining t = small(compression);
  t.widths = {16, 64, 32, 4};
  t.samples = 128;
  t.steps = steps;
  t.learning_rate = learning_rate;
  t.momentum = momentum;
  return t;
}

}  // namespace

TEST_CASE("without error feedback top-k of 0.1 % stalls; with it the dense loss comes later", "[compression]") {
  const auto dense = trainings(larger("", 400, 0.2, 0));
  const auto fed_back = loss_left(trainings(larger("{name: top-k, density: 0.001}", 400, 0.2, 0)));
  const auto alone = loss_left(trainings(larger("{name: top-k, density: 0.001, error_feedback: false}", 400, 0.2, 0)));
  CHECK(all_below(fed_back, alone, 1.0 / 3));
  CHECK(mean(fed_back) < mean(loss_left(dense, 0.4)));
}

TEST_CASE("at 99.9 % sparsity momentum correction is better, and a warm-up better still", "[compression]") {
  const auto corrected = [](const std::string& more) {
    return loss_left(trainings(larger("{name: dgc, density: 0.001, sample: 0" + more + "}", 200, 0.035, 0)));
  };
  const auto uncorrected = loss_left(trainings(larger("{name: top-k, density: 0.001}", 200, 0.035, 0.9)));
  const auto at_once = corrected(""), warmed_up = corrected(", warmup_steps: 20");
  CHECK(all_below(at_once, uncorrected));
  CHECK(all_below(warmed_up, at_once));
}

TEST_CASE("PowerSGD of rank 2 ends within 1 % of the dense loss", "[compression]") {
  const double dense = mean(loss_left(trainings(small(""))));
  CHECK(mean(loss_left(trainings(small("{name: powersgd, rank: 2, min_compression_rate: 1}")))) ==
        Approx(dense).epsilon(0.01));
}

TEST_CASE("1-bit SGD needs its error feedback", "[compression]") {
  const auto dense = loss_left(trainings(small(""))), fed_back = loss_left(trainings(small("1-bit")));
  CHECK(all_below(fed_back, dense, 1.05));
  CHECK(all_below(dense, loss_left(trainings(small("{name: 1-bit, error_feedback: false}"))), 0.6));
}

TEST_CASE("unbiased random levels, and numbers of fewer bits, learn as well as uncompressed gradients",
          "[compression]") {
  const double dense = mean(loss_left(trainings(small(""))));
  for (const char* compression : {"terngrad", "qsgd", "fp16", "bf16", "fp8"}) {
    CAPTURE(compression);
    CHECK(mean(loss_left(trainings(small(compression)))) == Approx(dense).epsilon(0.05));
  }
}

}  // namespace strategies_test_compressed_training
