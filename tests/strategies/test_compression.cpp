// Compressors: codecs against plain references, bytes and kernels against closed forms.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/stable_sort.hpp"
#include "strategies/compression/words.hpp"
#include "tests/strategies/compressed_training.hpp"

namespace strategies_test_compression {

using namespace trainyard;
using namespace trainyard::test;

namespace {

using Numbers = std::vector<double>;

GradientShape shape_of(std::vector<GradientMatrix> parts, int ranks = 1) {
  GradientShape shape;
  shape.parts = std::move(parts);
  shape.ranks = ranks;
  return shape;
}

/// Encodes the gradients of one step of a rank, and returns the decoded values of its message.
Numbers sent_values(GradientCodec& codec, const Numbers& gradients) { return codec.decode(codec.encode(0, gradients)); }

std::unique_ptr<GradientCodec> codec_of(const std::string& yaml, const GradientShape& shape, int rank = 0,
                                        std::uint64_t seed = 1) {
  return compressor_of(yaml)->codec(shape, rank, seed);
}

/// Returns a codec for each rank of the shape.
std::vector<std::unique_ptr<GradientCodec>> codecs_of(const Compressor& compressor, const GradientShape& shape) {
  std::vector<std::unique_ptr<GradientCodec>> codecs;
  for (int rank = 0; rank < shape.ranks; ++rank) codecs.push_back(compressor.codec(shape, rank, 1));
  return codecs;
}

double fp32(double x) { return static_cast<double>(static_cast<float>(x)); }

/// Reference of top-k: the `count` values of `all` of the largest magnitude, and 0 for the others. Of equal ones the
/// first is sent.
Numbers plain_top_k(const Numbers& all, std::size_t count) {
  const std::vector<std::size_t> order =
      stable_order(all.size(), [&](std::size_t a, std::size_t b) { return std::abs(all[a]) > std::abs(all[b]); });
  Numbers sent(all.size(), 0.0);
  for (std::size_t i = 0; i < count; ++i) sent[order[i]] = fp32(all[order[i]]);
  return sent;
}

}  // namespace

TEST_CASE("top-k sends the numbers that a sort would choose, and keeps the rest", "[compression]") {
  constexpr std::size_t n = 1000;
  for (const bool feedback : {true, false}) {
    const auto codec =
        codec_of(fmt::format("{{name: top-k, density: 0.013, error_feedback: {}}}", feedback), shape_of({{n, 1}}));
    Numbers residual(n, 0.0);
    for (std::uint64_t step = 0; step < 20; ++step) {
      Numbers all = random_gradients(n, step);
      for (std::size_t i = 0; i < n && feedback; ++i) all[i] += residual[i];
      const Numbers sent = plain_top_k(all, 13);
      CHECK(sent_values(*codec, random_gradients(n, step)) == sent);
      for (std::size_t i = 0; i < n; ++i) residual[i] = all[i] - sent[i];
    }
  }
}

TEST_CASE("a sampled threshold sends large gradients, as many as there is room for", "[compression]") {
  constexpr std::size_t n = 20000;
  const auto codec = codec_of("{name: top-k, density: 0.01, sample: 0.05, error_feedback: false}", shape_of({{n, 1}}));
  for (std::uint64_t step = 0; step < 10; ++step) {
    const Numbers all = random_gradients(n, step), sent = sent_values(*codec, all);
    double least = 1;
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (sent[i] == 0) continue;
      CHECK(sent[i] == fp32(all[i]));
      least = std::min(least, std::abs(all[i]));
      ++count;
    }
    CHECK(count <= 200);
    CHECK(count > 100);
    // If there was room for more, all values that were not sent are smaller.
    if (count < 200)
      for (std::size_t i = 0; i < n; ++i)
        if (sent[i] == 0) CHECK(std::abs(all[i]) < least);
  }
}

TEST_CASE("random-k sends numbers at the same places on all ranks, and at other places in every step",
          "[compression]") {
  constexpr std::size_t n = 500;
  const GradientShape shape = shape_of({{n, 1}}, 2);
  const auto a = codec_of("{name: random-k, density: 0.1}", shape, 0),
             b = codec_of("{name: random-k, density: 0.1}", shape, 1);
  Numbers residual(n, 0.0), seen(n, 0.0);
  for (std::uint64_t step = 0; step < 60; ++step) {
    const Numbers gradients = random_gradients(n, step), first = a->encode(0, gradients);
    CHECK(b->encode(0, gradients) == first);
    CHECK(first.size() == 50);
    const Numbers sent = a->decode(first);
    for (std::size_t i = 0; i < n; ++i) {
      residual[i] += gradients[i];
      if (sent[i] == 0) continue;
      CHECK(sent[i] == fp32(residual[i]));
      residual[i] -= sent[i];
      seen[i] = 1;
    }
  }
  CHECK(std::accumulate(seen.begin(), seen.end(), 0.0) > 0.98 * n);
}

TEST_CASE("a threshold sends plus or minus itself, and keeps the rest, also of larger gradients", "[compression]") {
  const GradientShape shape = shape_of({{4, 1}}, 2);
  const auto compressor = compressor_of("{name: threshold, threshold: 1, density: 0.5}");
  const auto codecs = codecs_of(*compressor, shape);
  const auto sum = [&](const Numbers& a, const Numbers& b) {
    return compressed_sum(*compressor, shape, codecs, std::vector<Numbers>{a, b});
  };
  CHECK(sum({2.5, -1.5, 0.5, 1}, {3, 0, 0, -4}) == Numbers{2, -1, 0, -1});
  // The ranks have the residuals 1.5, -0.5, 0.5, 1 and 2, 0, 0, -3.
  CHECK(sum({0, 0, 0.75, 0}, {0, 0, 0, 0}) == Numbers{2, 0, 1, -1});
  CHECK(sum({-10, 0, 0, 0}, {0, 0, 0, 0}) == Numbers{-1, 0, 0, -1});
}

TEST_CASE("DGC equals a plain loop of momentum, velocity and masks", "[compression]") {
  constexpr std::size_t n = 300;
  for (const bool masking : {true, false}) {
    const auto codec = codec_of(
        fmt::format("{{name: dgc, density: 0.01, sample: 0, momentum: 0.9, clip: 2, momentum_masking: {}}}", masking),
        shape_of({{n, 1}}));
    Numbers u(n, 0.0), v(n, 0.0);
    for (std::uint64_t step = 0; step < 15; ++step) {
      const Numbers gradients = random_gradients(n, step);
      double squares = 0;
      for (const double g : gradients) squares += g * g;
      REQUIRE(squares > 4);
      for (std::size_t i = 0; i < n; ++i) {
        u[i] = 0.9 * u[i] + 2 / std::sqrt(squares) * gradients[i];
        v[i] += u[i];
      }
      const Numbers sent = plain_top_k(v, 3);
      CHECK(sent_values(*codec, gradients) == sent);
      for (std::size_t i = 0; i < n; ++i) {
        v[i] -= sent[i];
        if (sent[i] != 0 && masking) u[i] = 0;
      }
    }
  }
}

TEST_CASE("1-bit SGD equals a plain loop over columns", "[compression]") {
  const auto codec = codec_of("1-bit", shape_of({{7, 5}, {4, 1}}));
  Numbers residual(39, 0.0);
  for (std::uint64_t step = 0; step < 10; ++step) {
    Numbers all = random_gradients(39, step);
    for (std::size_t i = 0; i < 39; ++i) all[i] += residual[i];
    Numbers sent(39);
    const auto column = [&](std::size_t first, std::size_t rows) {
      double sum = 0;
      for (std::size_t i = first; i < first + rows; ++i) sum += std::abs(all[i]);
      for (std::size_t i = first; i < first + rows; ++i)
        sent[i] = (all[i] > 0 ? 1 : -1) * fp32(sum / static_cast<double>(rows));
    };
    for (std::size_t c = 0; c < 5; ++c) column(7 * c, 7);
    column(35, 4);
    CHECK(sent_values(*codec, random_gradients(39, step)) == sent);
    for (std::size_t i = 0; i < 39; ++i) residual[i] = all[i] - sent[i];
  }
}

TEST_CASE("1-bit SGD in stripes quantizes sums again, with an error of their own", "[compression]") {
  // A column of 4 on two ranks: each sums 2 elements.
  const GradientShape shape = shape_of({{4, 1}}, 2);
  const auto compressor = compressor_of("{name: 1-bit, exchange: stripes}");
  const auto codecs = codecs_of(*compressor, shape);
  const auto sum = [&](const Numbers& a, const Numbers& b) {
    return compressed_sum(*compressor, shape, codecs, std::vector<Numbers>{a, b});
  };
  // The ranks send 2 2 | 3 -3 and 1 1 | -1 -1; sums are 3 3 | 2 -4, of which the second half becomes 3 -3.
  CHECK(sum({1, 3, 4, -2}, {1, 1, -1, -1}) == Numbers{3, 3, 3, -3});
  // The ranks have the residuals -1 1 | 1 1 and 0 0 | 0 0, their sums the residuals 0 0 | -1 -1.
  CHECK(sum({0, 0, 0, 0}, {0, 0, 0, 0}) == Numbers{-1, 1, 0, 0});
}

TEST_CASE("signs are decided by a majority of ranks", "[compression]") {
  const GradientShape shape = shape_of({{3, 1}}, 4);
  const auto compressor = compressor_of("sign");
  const auto codecs = codecs_of(*compressor, shape);
  const std::vector<Numbers> gradients{{9, -1, 1}, {-0.1, -2, 1}, {-0.1, -3, -1}, {-0.1, 4, -1}};
  CHECK(compressed_sum(*compressor, shape, codecs, gradients) == Numbers{-1, -1, 0});
}

TEST_CASE("random levels are unbiased", "[compression]") {
  for (const char* name : {"terngrad", "{name: qsgd, levels: 3, group_size: 4}"}) {
    CAPTURE(name);
    const Numbers g{0.5, -0.25, 1, 0, 0.125, -1.5, 0.75, 2};
    const auto codec = codec_of(name, shape_of({{4, 1}, {4, 1}}));
    constexpr int steps = 20000;
    Numbers sum(8, 0.0), squares(8, 0.0);
    for (int step = 0; step < steps; ++step) {
      const Numbers sent = sent_values(*codec, g);
      for (std::size_t i = 0; i < 8; ++i) {
        sum[i] += sent[i];
        squares[i] += sent[i] * sent[i];
      }
    }
    for (std::size_t i = 0; i < 8; ++i) {
      const double mean = sum[i] / steps, variance = squares[i] / steps - mean * mean;
      CHECK(std::abs(mean - g[i]) <= 4 * std::sqrt(variance / steps) + 1e-6);
    }
  }
}

TEST_CASE("PowerSGD reproduces a matrix of its rank exactly, and starts from its last result", "[compression]") {
  constexpr std::size_t m = 12, n = 9;
  const GradientShape shape = shape_of({{m, n}, {5, 1}}, 2);
  const auto compressor = compressor_of("{name: powersgd, rank: 2, min_compression_rate: 1}");
  const auto codecs = codecs_of(*compressor, shape);
  // Two matrices of rank 1, whose sum has rank 2, and a vector.
  std::vector<Numbers> gradients(2, Numbers(m * n + 5));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Numbers a = random_gradients(m, 10 + rank), b = random_gradients(n, 20 + rank);
    for (std::size_t c = 0; c < n; ++c)
      for (std::size_t r = 0; r < m; ++r) gradients[rank][c * m + r] = a[r] * b[c];
    for (std::size_t i = 0; i < 5; ++i) gradients[rank][m * n + i] = static_cast<double>(i) + 0.5;
  }
  const Numbers sum = compressed_sum(*compressor, shape, codecs, gradients);
  for (std::size_t i = 0; i < m * n + 5; ++i) CHECK(sum[i] == Approx(gradients[0][i] + gradients[1][i]).margin(1e-5));

  // The approximation of a repeated matrix of full rank improves: the power iteration starts from its last result.
  const auto last_error = [&](const char* yaml) {
    const GradientShape matrix_shape = shape_of({{m, n}});
    const auto codec = compressor_of(yaml)->codec(matrix_shape, 0, 1);
    const Numbers g = random_gradients(m * n, 3);
    double error = 0;
    for (int step = 0; step < 12; ++step) {
      const Numbers decoded = codec->decode(codec->encode(1, codec->encode(0, g)));
      error = 0;
      for (std::size_t i = 0; i < g.size(); ++i) error += std::pow(decoded[i] - g[i], 2);
    }
    return error;
  };
  const double warm = last_error("{name: powersgd, rank: 1, min_compression_rate: 1, error_feedback: false}");
  const double cold =
      last_error("{name: powersgd, rank: 1, min_compression_rate: 1, error_feedback: false, warm_start: false}");
  CHECK(warm < cold);
}

TEST_CASE("rounding to fewer bits gives the nearest number", "[compression]") {
  CHECK(rounded_to(Precision::fp16, 1 + 0x1p-11) == 1);  // ties to even
  CHECK(rounded_to(Precision::fp16, 1 + 3 * 0x1p-11) == 1 + 0x1p-9);
  CHECK(rounded_to(Precision::fp16, 65504) == 65504);
  CHECK(std::isinf(rounded_to(Precision::fp16, 65536)));
  CHECK(rounded_to(Precision::fp16, 0x1p-25) == 0);
  CHECK(rounded_to(Precision::fp16, 0x1.8p-25) == 0x1p-24);
  CHECK(rounded_to(Precision::bf16, 1.00390625) == 1);
  CHECK(rounded_to(Precision::fp8, 448) == 448);
  CHECK(rounded_to(Precision::fp8, 1e6) == 448);
  CHECK(rounded_to(Precision::fp8, 17) == 16);
  CHECK(rounded_to(Precision::fp8, 0x1p-9) == 0x1p-9);
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp8})
    for (const double x : random_gradients(200, 5)) {
      const double nearest = rounded_to(precision, x);
      CHECK(number_of_bits(precision, bits_of(precision, nearest)) == nearest);
    }
  for (const double x : random_gradients(200, 6)) CHECK(rounded_to(Precision::fp32, x) == fp32(x));
  for (std::uint32_t bits = 0; bits < 1U << 16; ++bits)
    if (const double x = number_of_bits(Precision::fp16, bits); std::isfinite(x)) {
      if (bits_of(Precision::fp16, x) != bits) FAIL(bits);
    }
}

TEST_CASE("words hold bits in their order", "[compression]") {
  WordWriter writer;
  for (std::uint32_t i = 0; i < 100; ++i) writer.bits(i, 7);
  writer.number(-1.5F);
  const Numbers words = std::move(writer).words();
  CHECK(words.size() == 23);  // 732 bits
  WordReader reader(words);
  for (std::uint32_t i = 0; i < 100; ++i) CHECK(reader.bits(7) == i);
  CHECK(reader.number() == -1.5F);
  CHECK(words_for(32) == 1);
  CHECK(words_for(33) == 2);
  CHECK(words_for(0) == 0);
}

TEST_CASE("compressors state the sizes that their codecs produce", "[compression]") {
  for (const std::string& name : compressors().names())
    for (const int ranks : {2, 5}) {
      std::string keys;
      const std::vector<std::string>& allowed_keys = compressors().find(name, {}).keys;
      const auto set = [&](const char* key, const char* value) {
        if (std::find(allowed_keys.begin(), allowed_keys.end(), key) != allowed_keys.end())
          keys += fmt::format(", {}: {}", key, value);
      };
      set("density", "0.03");
      set("threshold", "1e-9");
      set("rank", "2");
      set("min_compression_rate", "1");
      const auto compressor = compressor_of(fmt::format("{{name: {}{}}}", name, keys));
      const GradientShape shape = shape_of({{30, 20}, {30, 1}, {9, 11}}, ranks);
      const std::vector<CompressionRound> rounds = compressor->compress(shape).rounds;
      const auto codecs = codecs_of(*compressor, shape);
      Numbers result;
      for (std::size_t round = 0; round < rounds.size(); ++round) {
        Numbers all;
        const bool gathers = rounds[round].operation == Operation::all_gather;
        for (std::size_t rank = 0; rank < codecs.size(); ++rank) {
          const Numbers message =
              codecs[rank]->encode(static_cast<int>(round), round == 0 ? random_gradients(729, rank) : result);
          CAPTURE(name, ranks, round, rank);
          if (gathers && !rounds[round].counted)
            CHECK(rounds[round].bytes.value == 4.0 * ranks * static_cast<double>(message.size()));
          if (gathers)
            for (const double word : message) CHECK(word == static_cast<double>(static_cast<std::uint32_t>(word)));
          else
            CHECK(rounds[round].bytes.value ==
                  (name == "fp16" || name == "bf16" ? 2.0 : 4.0) * static_cast<double>(message.size()));
          if (gathers || rank == 0)
            all.insert(all.end(), message.begin(), message.end());
          else
            for (std::size_t i = 0; i < message.size(); ++i) all[i] += message[i];
        }
        result = std::move(all);
      }
      const Numbers sum = codecs.front()->decode(result);
      CHECK(sum.size() == 729);
      for (const auto& codec : codecs) CHECK(codec->decode(result) == sum);  // all ranks decode the same
    }
}

}  // namespace strategies_test_compression
