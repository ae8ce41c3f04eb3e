// Gradients rounded at random to a few levels, so that the mean is preserved: TernGrad (Wen et al. 2017) to 0 and plus
// or minus the largest magnitude of a tensor; QSGD (Alistarh et al. 2017) to levels of the norm of a few hundred
// gradients.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "sim/hashing.hpp"
#include "strategies/compression/compressor.hpp"
#include "strategies/compression/words.hpp"

namespace trainyard {
namespace {

/// Returns a number in [0, 1).
double uniform(std::uint64_t draw) { return static_cast<double>(draw >> 11) * 0x1.0p-53; }

/// Groups of gradients with one scale each. A gradient's code of `bits()` bits is a sign and a level of the scale.
struct Levels {
  int levels = 1;
  double group = 0;   // elements in a group; 0: a group is a tensor
  bool norm = false;  // true: the scale is the Euclidean norm; false: the largest magnitude
  double clip = 0;    // larger magnitudes are cut, in standard deviations; 0: none are

  int bits() const { return 1 + std::bit_width(static_cast<unsigned>(levels)); }
  /// Returns the end of each group.
  std::vector<std::size_t> ends(const GradientShape& shape) const {
    std::vector<std::size_t> group_ends;
    const auto all = static_cast<std::size_t>(shape.elements());
    for (std::size_t end = 0; end < all; group_ends.push_back(end))
      end =
          std::min(all, end + static_cast<std::size_t>(group > 0 ? group : shape.parts[group_ends.size()].elements()));
    return group_ends;
  }
  double groups(const GradientShape& shape) const {
    return group > 0 ? std::ceil(shape.elements() / group) : static_cast<double>(shape.parts.size());
  }
  double payload_bytes(const GradientShape& shape) const {
    return 4 * (groups(shape) + words_for(shape.elements() * bits()));
  }
};

class LevelCodec : public GradientCodec {
 public:
  LevelCodec(const Levels& levels, GradientShape shape, std::uint64_t seed)
      : levels_(levels), shape_(std::move(shape)), seed_(seed), ends_(levels.ends(shape_)) {}

  std::vector<double> encode(int, std::span<const double> input) override {
    WordWriter writer;
    std::vector<double> scales;
    std::size_t i = 0;
    for (const std::size_t end : ends_) {
      const auto scale = static_cast<float>(scale_of(input.subspan(i, end - i)));
      writer.number(scale);
      scales.push_back(static_cast<double>(scale));
      i = end;
    }
    const std::uint64_t draw = hash_numbers({seed_, step_++});
    i = 0;
    for (std::size_t group = 0; group < ends_.size(); ++group)
      for (; i < ends_[group]; ++i) writer.bits(code(input[i], scales[group], hash_numbers({draw, i})), levels_.bits());
    return std::move(writer).words();
  }
  std::vector<double> decode(std::span<const double> result) override {
    std::vector<double> sum = zeros(shape_);
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      WordReader reader(payload_of(result, rank, shape_.ranks));
      std::vector<double> scales(ends_.size());
      for (double& scale : scales) scale = static_cast<double>(reader.number());
      std::size_t i = 0;
      for (std::size_t group = 0; group < ends_.size(); ++group)
        for (; i < ends_[group]; ++i) {
          const std::uint32_t code = reader.bits(levels_.bits());
          const double size = scales[group] * (code >> 1U) / levels_.levels;
          sum[i] += (code & 1U) != 0 ? -size : size;
        }
    }
    return sum;
  }

 private:
  Levels levels_;
  GradientShape shape_;
  std::uint64_t seed_, step_ = 0;
  std::vector<std::size_t> ends_;  // ends of the groups

  double scale_of(std::span<const double> group) const {
    double most = 0, sum = 0, squares = 0;
    for (const double x : group) {
      most = std::max(most, std::abs(x));
      sum += x;
      squares += x * x;
    }
    if (levels_.norm) return std::sqrt(squares);
    if (levels_.clip == 0) return most;
    const auto n = static_cast<double>(group.size());
    const double deviation = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
    return std::min(most, levels_.clip * deviation);
  }
  /// Draws the level below or above; the nearer one is the likelier.
  std::uint32_t code(double x, double scale, std::uint64_t draw) const {
    if (scale == 0) return 0;
    const double exact = std::min(1.0, std::abs(x) / scale) * levels_.levels, below = std::floor(exact);
    const auto level = static_cast<std::uint32_t>(below + (uniform(draw) < exact - below ? 1 : 0));
    return level << 1U | (x < 0 ? 1U : 0U);
  }
};

class RandomLevels : public Compressor {
 public:
  RandomLevels(const Levels& levels, std::string summary) : levels_(levels), summary_(std::move(summary)) {}

  Compression compress(const GradientShape& shape) const override {
    const double dense = shape.elements() * shape.element.value, payload = levels_.payload_bytes(shape);
    CompressionRound round;
    round.kernels = {moves(levels_.norm ? "norms" : "largest magnitudes", dense),
                     moves("draw levels", dense + payload)};
    round.bytes = Bytes{shape.ranks * payload};
    return {{std::move(round)}, {moves("scale and add", shape.ranks * payload + dense)}};
  }
  std::unique_ptr<GradientCodec> codec(const GradientShape& shape, int rank, std::uint64_t seed) const override {
    return std::make_unique<LevelCodec>(levels_, shape, hash_numbers({seed, static_cast<std::uint64_t>(rank)}));
  }
  std::string summary() const override { return summary_; }

 private:
  Levels levels_;
  std::string summary_;
};

const RegisterCompressor register_levels[] = {
    RegisterCompressor{
        {"terngrad",
         "TernGrad: 0 or plus or minus the largest magnitude of a tensor, in 2 bits; the mean is preserved",
         "all-gather",
         {"clip"},
         [](Fields& fields) -> std::shared_ptr<const Compressor> {
           Levels levels;
           levels.clip = fields.number({"clip",
                                        "Limit of gradients before they are compressed: with terngrad on the magnitude "
                                        "of each, in standard deviations of its tensor, for example 2.5; with dgc on "
                                        "the norm of the mean gradient, for example 1. 0: no limit."},
                                       0, 1e6, 0);
           return std::make_shared<RandomLevels>(
               levels, levels.clip > 0 ? fmt::format("TernGrad, clipped at {} deviations", levels.clip) : "TernGrad");
         }}},
    RegisterCompressor{
        {"qsgd",
         "QSGD: levels of the norm of each group of gradients; the mean is preserved",
         "all-gather",
         {"levels", "group_size"},
         [](Fields& fields) -> std::shared_ptr<const Compressor> {
           Levels levels;
           levels.norm = true;
           levels.levels = fields.integer_within<int>(
               {"levels", "Number of levels of QSGD between 0 and the norm of a group, for example 7."}, 1, 1 << 20, 7);
           levels.group = static_cast<double>(fields.integer_within<int>(
               {"group_size", "Number of gradients that share a norm, for example 512."}, 1, 1 << 30, 512));
           return std::make_shared<RandomLevels>(
               levels, fmt::format("QSGD of {} levels in groups of {}", levels.levels, levels.group));
         }}}};

}  // namespace
}  // namespace trainyard
