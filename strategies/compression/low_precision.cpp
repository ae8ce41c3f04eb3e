// Gradients in fewer bits. fp16 and bf16 follow PyTorch's fp16_compress_hook and bf16_compress_hook; their sums have
// the same form. fp8 (E4M3: Micikevicius et al. 2022) has one scale for each rank, so it must be cast back before it
// is summed.
#include <algorithm>
#include <cmath>

#include "strategies/compression/compressor.hpp"
#include "strategies/compression/words.hpp"

namespace trainyard {
namespace {

/// Casts to 16 bits. Sums are rounded once, at the end, not at each hop.
class HalfCodec : public GradientCodec {
 public:
  explicit HalfCodec(Precision precision) : precision_(precision) {}
  std::vector<double> encode(int, std::span<const double> input) override { return rounded(input); }
  std::vector<double> decode(std::span<const double> result) override { return rounded(result); }

 private:
  Precision precision_;

  std::vector<double> rounded(std::span<const double> input) const {
    std::vector<double> all(input.begin(), input.end());
    for (double& x : all) x = rounded_to(precision_, x);
    return all;
  }
};

class Half : public Compressor {
 public:
  explicit Half(Precision precision) : precision_(precision) {}

  Compression compress(const GradientShape& shape) const override {
    const double n = shape.elements(), cast = n * (shape.element + element_size(precision_)).value;
    CompressionRound round;
    round.kernels = {moves("cast", cast)};
    round.operation = Operation::all_reduce;
    round.bytes = n * element_size(precision_);
    return {{round}, {moves("cast back", cast)}};
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape&, int, std::uint64_t) const override {
    return std::make_unique<HalfCodec>(precision_);
  }
  std::string summary() const override { return name_of(precision_); }
  std::string refuses(const GradientShape& shape) const override {
    return shape.element <= element_size(precision_) ? "gradients are already exchanged in as few bytes" : "";
  }

 private:
  Precision precision_;
};

double highest(std::span<const double> values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return most;
}

/// Casts to fp8, with a scale that maps the largest magnitude to the largest number of the format.
class Fp8Codec : public GradientCodec {
 public:
  explicit Fp8Codec(GradientShape shape) : shape_(std::move(shape)) {}

  std::vector<double> encode(int, std::span<const double> input) override {
    constexpr double most = 448;  // the largest number of E4M3
    const auto scale = static_cast<float>(highest(input) / most);
    WordWriter writer;
    writer.number(scale);
    for (const double x : input)
      writer.bits(bits_of(Precision::fp8, scale > 0 ? rounded_to(Precision::fp8, x / static_cast<double>(scale)) : 0),
                  8);
    return std::move(writer).words();
  }
  std::vector<double> decode(std::span<const double> result) override {
    std::vector<double> sum = zeros(shape_);
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      WordReader reader(payload_of(result, rank, shape_.ranks));
      const auto scale = static_cast<double>(reader.number());
      for (double& x : sum) x += scale * number_of_bits(Precision::fp8, reader.bits(8));
    }
    return sum;
  }

 private:
  GradientShape shape_;
};

class Fp8 : public Compressor {
 public:
  Compression compress(const GradientShape& shape) const override {
    const double n = shape.elements(), element = shape.element.value, payload = 4 * words_for(32 + 8 * n);
    CompressionRound round;
    round.kernels = {moves("largest magnitude", n * element), moves("cast", n * element + payload)};
    round.bytes = Bytes{shape.ranks * payload};
    return {{round}, {moves("cast back and add", shape.ranks * payload + n * element)}};
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int, std::uint64_t) const override {
    return std::make_unique<Fp8Codec>(shape);
  }
  std::string summary() const override { return "fp8"; }
};

template <Precision precision>
std::shared_ptr<const Compressor> read_half(Fields&) {
  return std::make_shared<Half>(precision);
}

const RegisterCompressor register_low_precision[] = {
    RegisterCompressor{{"fp16", "gradients cast to fp16", "all-reduce", {}, read_half<Precision::fp16>}},
    RegisterCompressor{{"bf16", "gradients cast to bf16", "all-reduce", {}, read_half<Precision::bf16>}},
    RegisterCompressor{{"fp8",
                        "gradients cast to fp8 (E4M3), with one scale for each rank and bucket",
                        "all-gather",
                        {},
                        [](Fields&) -> std::shared_ptr<const Compressor> { return std::make_shared<Fp8>(); }}}};

}  // namespace
}  // namespace trainyard
