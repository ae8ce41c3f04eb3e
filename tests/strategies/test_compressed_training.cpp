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
        const Simulated result = simulated(t);
        CHECK(result.difference == 0);
        CHECK(result.hazards == 0);
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
    CHECK(bytes_of_step("fp8", ranks) == near(gathers * 4 * (1 + 97)));  // 387 bytes in 97 words, and a scale
    // 387 bits in 13 words, and a number for each of 36 columns and 3 biases.
    CHECK(bytes_of_step("1-bit", ranks) == near(gathers * 4 * (13 + 36 + 3)));
    CHECK(bytes_of_step("sign", ranks) == near(gathers * 4 * 13));
    CHECK(bytes_of_step("terngrad", ranks) == near(gathers * 4 * (25 + 6)));  // 2 bits each, and a scale per tensor
    CHECK(bytes_of_step("{name: qsgd, group_size: 100}", ranks) == near(gathers * 4 * (49 + 4)));
    // Factors of rank 1 have 16 + 8, 12 + 16 and 3 + 12 numbers. The 31 biases are not compressed.
    CHECK(bytes_of_step("{name: powersgd, rank: 1}", ranks) == near(sums * 4 * (24 + 28 + 15 + 31)));
  }
}

TEST_CASE("on values, the sizes of messages depend on the gradients", "[compression]") {
  CompressedTraining t;
  t.ranks = 4;
  t.steps = 1;
  // With a threshold near 0 every rank sends all values: their number in 4 bytes, then 387 words.
  t.compression = "{name: threshold, threshold: 1e-12, density: 0.01}";
  CHECK(simulated(t).bytes == near(4 * 3 * 4 * (1 + kElements)));
  t.compression = "{name: threshold, threshold: 1e12, density: 0.5}";
  CHECK(simulated(t).bytes == near(4 * 3 * 4));
  // A sparse ring sends the nonzero elements of the sums in each hop, at most all elements in 4 bytes each.
  t.all_reduce = "sparse-ring";
  t.compression = "{name: top-k, density: 1, exchange: ring}";
  CHECK(simulated(t).bytes == near(2 * 3 * 4 * kElements));
  t.compression = "{name: top-k, density: 0.01, exchange: ring}";
  // Each of 4 ranks has 4 values: the first hop of the reduce-scatter sends 4 x 4 x 8 bytes, later hops more, but at
  // most the values of all ranks.
  const double least = 3 * 16 * 8, most = (16 + 2 * 16 + 3 * 16) * 8 + 3 * 16 * 8;
  const double bytes = simulated(t).bytes;
  CHECK(bytes > least);
  CHECK(bytes <= most);
}

namespace {

/// Returns the results of a training with each of five seeds.
std::vector<Replayed> trainings(CompressedTraining t) {
  std::vector<Replayed> all;
  for (t.seed = 1; t.seed <= 5; ++t.seed) all.push_back(replay(t));
  return all;
}

/// Returns for each training the loss after a share of the steps, divided by the loss at the beginning.
std::vector<double> remaining_loss(const std::vector<Replayed>& trainings, double share = 1) {
  std::vector<double> all;
  for (const Replayed& t : trainings) {
    const double position = share * static_cast<double>(t.losses.size() - 1);
    all.push_back(t.losses[static_cast<std::size_t>(position)] / t.losses.front());
  }
  return all;
}

double mean(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

/// True if each value of the first list is below `factor` times that of the second.
bool all_below(const std::vector<double>& a, const std::vector<double>& b, double factor = 1) {
  return std::equal(a.begin(), a.end(), b.begin(), [factor](double x, double y) { return x < factor * y; });
}

CompressedTraining small_training(const std::string& compression) {
  CompressedTraining t;
  t.compression = compression;
  t.steps = 288;
  return t;
}

/// Returns a training of 3,300 parameters: a density of one in a thousand sends 3.
CompressedTraining larger_training(const std::string& compression, int steps, double learning_rate, double momentum) {
  CompressedTraining t = small_training(compression);
  t.widths = {16, 64, 32, 4};
  t.samples = 128;
  t.steps = steps;
  t.learning_rate = learning_rate;
  t.momentum = momentum;
  return t;
}

}  // namespace

TEST_CASE("top-k of 0.1 % stalls without error feedback, and reaches the dense loss later with it", "[compression]") {
  const auto dense = trainings(larger_training("", 400, 0.2, 0));
  const auto with_feedback = remaining_loss(trainings(larger_training("{name: top-k, density: 0.001}", 400, 0.2, 0)));
  const auto without_feedback =
      remaining_loss(trainings(larger_training("{name: top-k, density: 0.001, error_feedback: false}", 400, 0.2, 0)));
  CHECK(all_below(with_feedback, without_feedback, 1.0 / 3));
  CHECK(mean(with_feedback) < mean(remaining_loss(dense, 0.4)));
}

TEST_CASE("at 99.9 % sparsity momentum correction is better, and a warm-up better still", "[compression]") {
  const auto dgc_losses = [](const std::string& more) {
    return remaining_loss(
        trainings(larger_training("{name: dgc, density: 0.001, sample: 0" + more + "}", 200, 0.035, 0)));
  };
  const auto top_k_losses =
      remaining_loss(trainings(larger_training("{name: top-k, density: 0.001}", 200, 0.035, 0.9)));
  const auto without_warmup = dgc_losses(""), with_warmup = dgc_losses(", warmup_steps: 20");
  CHECK(all_below(without_warmup, top_k_losses));
  CHECK(all_below(with_warmup, without_warmup));
}

TEST_CASE("PowerSGD of rank 2 ends within 1 % of the dense loss", "[compression]") {
  const double dense = mean(remaining_loss(trainings(small_training(""))));
  CHECK(mean(remaining_loss(trainings(small_training("{name: powersgd, rank: 2, min_compression_rate: 1}")))) ==
        Approx(dense).epsilon(0.01));
}

TEST_CASE("1-bit SGD needs its error feedback", "[compression]") {
  const auto dense = remaining_loss(trainings(small_training(""))),
             with_feedback = remaining_loss(trainings(small_training("1-bit")));
  CHECK(all_below(with_feedback, dense, 1.05));
  CHECK(all_below(dense, remaining_loss(trainings(small_training("{name: 1-bit, error_feedback: false}"))), 0.6));
}

TEST_CASE("unbiased random levels, and numbers of fewer bits, learn as well as uncompressed gradients",
          "[compression]") {
  const double dense = mean(remaining_loss(trainings(small_training(""))));
  for (const char* compression : {"terngrad", "qsgd", "fp16", "bf16", "fp8"}) {
    CAPTURE(compression);
    CHECK(mean(remaining_loss(trainings(small_training(compression)))) == Approx(dense).epsilon(0.05));
  }
}

}  // namespace strategies_test_compressed_training
