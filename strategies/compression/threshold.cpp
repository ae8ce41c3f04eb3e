// Gradients above a threshold are sent as plus or minus the threshold, with 31 bits for the place and one for the sign
// (Strom 2015, "Scalable distributed DNN training using commodity GPU cloud computing"). Ranks first exchange their
// counts, then pad payloads to the largest.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "strategies/compression/sparse.hpp"

namespace trainyard {
namespace {

constexpr std::uint32_t kMinus = 1U << 31;

class ThresholdCodec : public GradientCodec {
 public:
  ThresholdCodec(double threshold, bool feedback, GradientShape shape)
      : threshold_(threshold), feedback_(feedback), shape_(std::move(shape)), residual_(zeros(shape_)) {}

  std::vector<double> encode(int round, std::span<const double> input) override {
    if (round > 0) {
      counts_.assign(input.begin(), input.end());
      payload_.resize(static_cast<std::size_t>(*std::ranges::max_element(input)), 0.0);
      return payload_;
    }
    payload_.clear();
    for (std::size_t i = 0; i < input.size(); ++i) {
      const double all = input[i] + (feedback_ ? residual_[i] : 0);
      residual_[i] = all;
      if (std::abs(all) <= threshold_) continue;
      payload_.push_back(static_cast<double>(static_cast<std::uint32_t>(i) | (all < 0 ? kMinus : 0)));
      residual_[i] -= std::copysign(threshold_, all);
    }
    return {static_cast<double>(payload_.size())};
  }
  std::vector<double> decode(std::span<const double> result) override {
    std::vector<double> sum(residual_.size(), 0.0);
    const std::size_t payload_size = result.size() / counts_.size();
    for (std::size_t rank = 0; rank < counts_.size(); ++rank)
      for (std::size_t i = 0; i < static_cast<std::size_t>(counts_[rank]); ++i) {
        const auto word = static_cast<std::uint32_t>(result[rank * payload_size + i]);
        sum[word & ~kMinus] += (word & kMinus) != 0 ? -threshold_ : threshold_;
      }
    return sum;
  }

 private:
  double threshold_;
  bool feedback_;
  GradientShape shape_;
  std::vector<double> residual_, payload_, counts_;
};

class Threshold : public Compressor {
 public:
  Threshold(double threshold, double density, bool feedback)
      : threshold_(threshold), density_(density), feedback_(feedback) {}

  Compression compress(const GradientShape& shape) const override {
    const double n = shape.elements(), count = chosen_elements(density_, n), word = 4;
    CompressionRound counts, places;
    if (feedback_) counts.kernels.push_back(add_residual(shape));
    const double read = feedback_ ? kResidualBytes : shape.element.value;
    counts.kernels.push_back(
        moves("compare and compact", n * read + count * (word + (feedback_ ? kResidualBytes : 0))));
    counts.bytes = Bytes{shape.ranks * word};
    places.bytes = Bytes{shape.ranks * count * word};
    places.counted = true;
    return {{std::move(counts), std::move(places)}, {scatter_add(shape, count, word)}};
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int, std::uint64_t) const override {
    return std::make_unique<ThresholdCodec>(threshold_, feedback_, shape);
  }
  std::string summary() const override {
    return fmt::format("threshold {:.4g}, about {} above it, {}", threshold_, share_in_words(density_),
                       feedback_in_words(feedback_));
  }
  Bytes state(const GradientShape& shape) const override { return residual_size(shape, feedback_); }
  bool pushes() const override { return false; }

 private:
  double threshold_, density_;
  bool feedback_;
};

const RegisterCompressor register_threshold{
    {"threshold",
     "gradients above a threshold, as plus or minus the threshold; density: their expected fraction, if no values are "
     "computed",
     "counts, then an all-gather padded to the most",
     {"threshold", "density", "error_feedback"},
     [](Fields& fields) -> std::shared_ptr<const Compressor> {
       const double threshold = fields.number(
                        {"threshold", "Magnitude above which a gradient is sent, for example 0.001."}, 1e-300, 1e300),
                    density = read_density(fields);
       return std::make_shared<Threshold>(threshold, density, read_error_feedback(fields));
     }}};

}  // namespace
}  // namespace trainyard
