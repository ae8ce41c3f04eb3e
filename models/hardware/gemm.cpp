#include "models/hardware/gemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "models/hardware/shape_numbers.hpp"
#include "sim/hashing.hpp"

namespace trainyard {
namespace {

ShapeNumbers<GemmShape>& shapes() {
  static ShapeNumbers<GemmShape> numbers(kFirstShape, UINT16_MAX - kFirstShape, "matrix products");
  return numbers;
}

/// A product's kernel number and all figures that its duration depends on.
using PricedFigures = std::array<double, 18>;
struct FiguresHash {
  std::size_t operator()(const PricedFigures& figures) const {
    std::uint64_t h = 0;
    for (const double value : figures) h = mix_bits(h ^ std::bit_cast<std::uint64_t>(value));
    return static_cast<std::size_t>(h);
  }
};

/// Durations of products that were priced before, for all threads.
struct PricedProducts {
  std::shared_mutex mutex;
  std::unordered_map<PricedFigures, GemmTime, FiguresHash> times;
};
PricedProducts& priced_products() {
  static PricedProducts all;
  return all;
}

/// Sizes of the tiles of the output, and the number of parts into which the inner dimension is split.
struct Tiling {
  double rows, columns, splits;
};

constexpr double kLeastInner = 128;  // least inner dimension of a split
constexpr std::array<double, 4> kSides{32, 64, 128, 256};
constexpr std::array<double, 8> kSplits{1, 2, 3, 4, 6, 8, 16, 32};
constexpr double kEnoughWaves = 4;  // from here on SMs are busy without splits

class Product {
 public:
  Product(const GemmModel& model, const GemmChip& chip, const GemmShape& shape, Bytes element)
      : model_(model), chip_(chip), shape_(shape), element_(element.value), output_(std::max(element.value, 2.0)) {
    const double operands = element_ * (shape.m * shape.k + shape.n * shape.k) * shape.count;
    const double result = output_ * shape.m * shape.n * shape.count;
    const double missing = 1 - cached(operands + result);
    const double rate = chip.memory_bandwidth.value * model.memory;
    traffic_ = (operands + result) * missing / rate;
    writing_ = result * missing / rate;
    inner_ = model.inner_step * std::ceil(shape.k / model.inner_step);
    flops_ = chip.peak.value * model.clock * model.peak;
  }

  GemmTime best() const {
    GemmTime best{Seconds{0}, false};
    double least = HUGE_VAL;
    for (const double rows : kSides)
      for (const double columns : kSides) {
        if (rows == kSides.front() && columns == kSides.front()) continue;
        if (rows == kSides.back() && columns == kSides.back() && !model_.tiles_of_256) continue;
        const double tiles = std::ceil(shape_.m / rows) * std::ceil(shape_.n / columns) * shape_.count;
        for (const double splits : kSplits) {
          if (splits > 1 && (inner_ / splits < kLeastInner || tiles > kEnoughWaves * chip_.sms)) break;
          const double arithmetic = time_of_tiles({rows, columns, splits}, tiles);
          const double time = time_of({rows, columns, splits}, arithmetic);
          if (time >= least) continue;
          least = time;
          best.by_memory = traffic_ > arithmetic;
        }
      }
    const double ideal = 2 * shape_.m * shape_.n * shape_.k * shape_.count / flops_;
    best.total = Seconds{least + ideal * model_.throttle * ideal / (ideal + model_.throttle_after.value)};
    return best;
  }

 private:
  const GemmModel& model_;
  const GemmChip& chip_;
  const GemmShape& shape_;
  double element_, output_, traffic_ = 0, writing_ = 0, inner_ = 0, flops_ = 0;

  /// Share of a product's traffic that an earlier product has left in the L2 cache. It falls as more bytes are moved.
  double cached(double moved) const {
    const double part = chip_.l2.value * model_.cached;
    return part > 0 ? std::clamp((1.6 * part - 6 * moved) / (0.8 * part), 0.0, 1.0) : 0.0;
  }

  /// Time of all waves. In each wave each SM computes one tile.
  double time_of_tiles(const Tiling& t, double tiles) const {
    const double waves = std::ceil(tiles * t.splits / chip_.sms);
    const double inner = model_.inner_step * std::ceil(inner_ / (model_.inner_step * t.splits));
    const double arithmetic = 2 * t.rows * t.columns * inner * chip_.sms / flops_;
    const double feed = (t.rows + t.columns) * inner * element_ * chip_.sms / (model_.l2_feed.value * model_.clock);
    return waves * std::max(arithmetic, feed);
  }

  double time_of(const Tiling& t, double tiles) const {
    const double overlapped = std::cbrt(tiles * tiles * tiles + traffic_ * traffic_ * traffic_);
    // Partial sums of a split product are written and summed in fp32.
    const double sums =
        t.splits > 1 ? model_.split.value + 8 * t.splits * shape_.m * shape_.n * shape_.count / model_.l2_feed.value
                     : 0;
    return overlapped + sums + model_.exposed_output * std::min(writing_, model_.exposed_most * tiles);
  }
};

}  // namespace

std::uint16_t kernel_of(const GemmShape& shape) { return shapes().number_of(shape); }
const GemmShape& shape_of(std::uint16_t kernel) { return shapes().shape_of(kernel); }
/// The durations that were kept for the shapes go with their numbers.
const RegisterShapes register_products{[] {
  if (!shapes().free_if_half_full()) return;
  const std::unique_lock lock(priced_products().mutex);
  priced_products().times.clear();
}};

GemmModel read_gemm_model(Fields& fields) {
  constexpr double least = 1e-6, most_extra = 10, most_step = 1024;
  GemmModel model;
  model.is_given = true;
  model.peak = fields.number({"peak", "Share of the peak that an SM full of work sustains."}, least, 1);
  model.memory = fields.number({"memory", "Share of the memory bandwidth that matrix products reach."}, least, 1);
  model.l2_feed = fields.bandwidth({"l2_feed", "Rate from the L2 cache to all SMs together."});
  fields.flops_rate(
      {"rated_peak", "16-bit peak of the chip to which the figures were fitted; left out: the peak of this entry."},
      FlopsPerSecond{0});  // read_gpu uses it
  model.split =
      fields.seconds({"split", "Additional time of a product whose inner dimension is split over SMs."}, Seconds{0});
  model.throttle = fields.number({"throttle", "Relative slowdown of long products, because power limits the clock."}, 0,
                                 most_extra, 0);
  model.throttle_after = fields.seconds(
      {"throttle_after", "Duration of a product after which half of that slowdown applies."}, Seconds{1});
  model.exposed_output =
      fields.number({"exposed_output", "Share of the time to write the output that does not overlap with arithmetic."},
                    0, most_extra, 0);
  model.exposed_most = fields.number(
      {"exposed_most", "Limit of the exposed time to write the output, as a multiple of the arithmetic's time."}, 0,
      most_extra, 1);
  model.cached =
      fields.number({"cached", "Share of the L2 cache that keeps operands from one kernel to the next."}, 0, 1, 0);
  model.sustained = fields.number(
      {"sustained", "Ratio of the clock in runs of many minutes to that in the shortest tests; 0: not known."}, 0, 1,
      0);
  model.sustained_fp8 = fields.number(
      {"sustained_fp8",
       "Ratio of the clock of products in fp8 in long runs to that in the shortest tests; 0: as gemm.sustained."},
      0, 1, 0);
  model.sustained_fp4 = fields.number(
      {"sustained_fp4",
       "Ratio of the clock of products in 4 bits in long runs to that in the shortest tests; 0: as gemm.sustained."},
      0, 1, 0);
  model.fp8 =
      fields.number({"fp8", "Ratio of the sustained share of the peak in fp8 to that in 16 bits."}, least, 2, 1);
  model.fp8_block = fields.number(
      {"fp8_block",
       "Ratio of the rate of products in fp8 with a scale for each block (mxfp8) to that with one scale a tensor."},
      least, 1, 1);
  model.fp4 =
      fields.number({"fp4", "Ratio of the sustained share of the peak in 4 bits to that in 16 bits."}, least, 2, 1);
  model.inner_step = fields.number({"inner_step", "Elements of the inner dimension that a tile processes at a time."},
                                   1, most_step, 64);
  model.tiles_of_256 = fields.boolean({"tiles_of_256", "Pairs of SMs compute tiles of 256 x 256 (Blackwell)."}, false);
  return model;
}

GemmTime gemm_time(const GemmModel& model, const GemmChip& chip, const GemmShape& shape, Bytes element) {
  if (!shape.in_turn) return Product(model, chip, shape, element).best();
  GemmTime all = Product(model, chip, {shape.m, shape.n, shape.k}, element).best();
  all.total = all.total * shape.count;
  return all;
}

GemmTime gemm_time(const GemmModel& model, const GemmChip& chip, std::uint16_t kernel, Bytes element) {
  if (shapes().is_temporary(kernel)) return gemm_time(model, chip, shape_of(kernel), element);
  const PricedFigures key{static_cast<double>(kernel),
                          element.value,
                          chip.peak.value,
                          chip.memory_bandwidth.value,
                          chip.l2.value,
                          static_cast<double>(chip.sms),
                          model.peak,
                          model.memory,
                          model.l2_feed.value,
                          model.split.value,
                          model.throttle,
                          model.throttle_after.value,
                          model.exposed_output,
                          model.exposed_most,
                          model.inner_step,
                          model.cached,
                          model.tiles_of_256 ? 1.0 : 0.0,
                          model.clock};
  PricedProducts& all = priced_products();
  {
    const std::shared_lock lock(all.mutex);
    if (const auto entry = all.times.find(key); entry != all.times.end()) return entry->second;
  }
  const GemmTime time = gemm_time(model, chip, shape_of(kernel), element);
  const std::unique_lock lock(all.mutex);
  return all.times.try_emplace(key, time).first->second;
}

}  // namespace trainyard
