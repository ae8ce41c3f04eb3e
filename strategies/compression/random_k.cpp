// Gradients at places drawn at random (Stich et al. 2018; Wangni et al. 2018), the same on all ranks: places are not
// sent, and sums of payloads have the same form.
#include <fmt/format.h>

#include <set>

#include "sim/hashing.hpp"
#include "strategies/compression/sparse.hpp"

namespace trainyard {
namespace {

/// Draws places, in ascending order (Floyd's algorithm: Bentley & Floyd 1987).
std::vector<std::size_t> draw_places(std::size_t elements, std::size_t count, std::uint64_t draw) {
  std::set<std::size_t> places;
  for (std::size_t end = elements - count + 1; end <= elements; ++end) {
    const std::size_t place = hash_numbers({draw, end}) % end;
    if (!places.insert(place).second) places.insert(end - 1);
  }
  return {places.begin(), places.end()};
}

class RandomKCodec : public GradientCodec {
 public:
  RandomKCodec(double density, bool feedback, GradientShape shape, std::uint64_t seed)
      : feedback_(feedback),
        shape_(std::move(shape)),
        seed_(seed),
        count_(static_cast<std::size_t>(chosen_elements(density, shape_.elements()))),
        residual_(zeros(shape_)) {}

  std::vector<double> encode(int, std::span<const double> input) override {
    std::vector<double> all(input.begin(), input.end());
    for (std::size_t i = 0; i < all.size() && feedback_; ++i) all[i] += residual_[i];
    places_ = draw_places(all.size(), count_, hash_numbers({seed_, step_++}));
    std::vector<double> sent;
    for (const std::size_t place : places_) {
      sent.push_back(rounded_to(sent_precision(shape_), all[place]));
      all[place] -= sent.back();
    }
    residual_ = std::move(all);
    return sent;
  }
  std::vector<double> decode(std::span<const double> result) override {
    std::vector<double> sum(residual_.size(), 0.0);
    for (std::size_t i = 0; i < places_.size(); ++i) sum[places_[i]] = result[i];
    return sum;
  }

 private:
  bool feedback_;
  GradientShape shape_;
  std::uint64_t seed_, step_ = 0;
  std::size_t count_;
  std::vector<double> residual_;
  std::vector<std::size_t> places_;
};

class RandomK : public Compressor {
 public:
  RandomK(double density, bool feedback) : density_(density), feedback_(feedback) {}

  Compression compress(const GradientShape& shape) const override {
    const double count = chosen_elements(density_, shape.elements()), element = shape.element.value;
    const double sent = element_size(sent_precision(shape)).value, read = feedback_ ? kResidualBytes : element;
    CompressionRound round;
    if (feedback_) round.kernels.push_back(add_residual(shape));
    round.kernels.push_back(moves("gather", count * (read + sent + (feedback_ ? kResidualBytes : 0))));
    round.operation = Operation::all_reduce;
    round.bytes = Bytes{count * sent};
    return {{std::move(round)}, {moves("scatter", shape.elements() * element + count * (sent + element))}};
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int, std::uint64_t seed) const override {
    return std::make_unique<RandomKCodec>(density_, feedback_, shape, seed);
  }
  std::string summary() const override {
    return fmt::format("random-k of {}, {}", share_in_words(density_), feedback_in_words(feedback_));
  }
  Bytes state(const GradientShape& shape) const override { return residual_size(shape, feedback_); }

 private:
  double density_;
  bool feedback_;
};

const RegisterCompressor register_random_k{{"random-k",
                                            "gradients at random places, the same on all ranks",
                                            "all-reduce",
                                            {"density", "error_feedback"},
                                            [](Fields& fields) -> std::shared_ptr<const Compressor> {
                                              const double density = read_density(fields);
                                              return std::make_shared<RandomK>(density, read_error_feedback(fields));
                                            }}};

}  // namespace
}  // namespace trainyard
