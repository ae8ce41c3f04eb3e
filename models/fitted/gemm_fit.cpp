#include "models/fitted/gemm_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "models/fitted/measured_table.hpp"
#include "models/fitted/pattern_search.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kFewestProducts = 50;  // on each side: five for each constant
constexpr Bytes kBf16Size{2};

GemmChip bf16_chip(const Gpu& gpu) {
  return {gpu.peak[static_cast<std::size_t>(Precision::bf16)], gpu.memory_bandwidth, gpu.l2, std::max(gpu.sms, 1)};
}

Seconds product_at(const GemmModel& model, const GemmChip& chip, Seconds launch, const GemmShape& shape) {
  return launch + gemm_time(model, chip, shape, kBf16Size).total;
}

/// A constant as the search moves it: by its logarithm.
struct GemmConstant {
  const char* name;
  double start, most;
};
// Where the search begins: between the three GPUs that tables are of.
constexpr GemmConstant kGemmConstants[] = {{"kernel_launch", 2.5e-6, 1e-3},
                                           {"peak", 0.88, 1},
                                           {"memory", 0.8, 1},
                                           {"l2_feed", 3, 100},
                                           {"split", 3e-6, 1e-3},
                                           {"throttle", 0.2, 10},
                                           {"throttle_after", 900e-6, 1},
                                           {"exposed_output", 0.5, 10},
                                           {"exposed_most", 1, 10},
                                           {"cached", 0.05, 1}};
// Tiles of CUTLASS and cuBLAS go through 32 or 64 elements of 16 bits at a time (128x256_32x3, 128x256_64x3).
constexpr double kInnerSteps[] = {32, 64};
constexpr std::size_t kGemmCount = std::size(kGemmConstants);

struct GemmPoint {
  double at[kGemmCount];
  double inner_step;
  double value(std::size_t i) const {
    return std::min(kGemmConstants[i].most, kGemmConstants[i].start * std::exp(at[i]));
  }
  static GemmPoint of(const Gpu& gpu) {
    const GemmModel& m = gpu.gemm;
    const double values[] = {gpu.kernel_launch.value,
                             m.peak,
                             m.memory,
                             m.l2_feed / gpu.memory_bandwidth,
                             m.split.value,
                             m.throttle,
                             m.throttle_after.value,
                             m.exposed_output,
                             m.exposed_most,
                             m.cached};
    GemmPoint point{{}, m.inner_step};
    for (std::size_t i = 0; i < kGemmCount; ++i) {
      const double least = kGemmConstants[i].start * 1e-3;  // a logarithm is taken of it
      point.at[i] = std::log(std::max(values[i], least) / kGemmConstants[i].start);
    }
    return point;
  }
  Seconds launch() const { return Seconds{value(0)}; }
  GemmModel model(const Gpu& gpu) const {
    GemmModel m;
    m.given = true;
    m.peak = value(1);
    m.memory = value(2);
    m.l2_feed = gpu.memory_bandwidth * value(3);
    m.split = Seconds{value(4)};
    m.throttle = value(5);
    m.throttle_after = Seconds{value(6)};
    m.exposed_output = value(7);
    m.exposed_most = value(8);
    m.cached = value(9);
    m.inner_step = inner_step;
    m.tiles_of_256 = gpu.gemm.tiles_of_256;
    return m;
  }
};

double product_log_error(const std::vector<MeasuredProduct>& rows, const Gpu& gpu, const GemmPoint& point) {
  const GemmModel model = point.model(gpu);
  const GemmChip chip = bf16_chip(gpu);
  double sum = 0;
  for (const MeasuredProduct& row : rows)
    sum += std::abs(std::log(product_at(model, chip, point.launch(), row.shape) / row.time));
  return sum / static_cast<double>(rows.size());
}

KernelErrors product_errors(const std::vector<MeasuredProduct>& rows, const Gpu& gpu, const GemmPoint& point) {
  std::vector<double> errors;
  for (const MeasuredProduct& row : rows)
    errors.push_back(std::abs(product_at(point.model(gpu), bf16_chip(gpu), point.launch(), row.shape) / row.time - 1));
  return kernel_errors(std::move(errors));
}

/// A constant of which a quarter more or less changes nothing.
std::vector<std::string> undetermined_constants(const std::vector<MeasuredProduct>& rows, const Gpu& gpu,
                                                GemmPoint best) {
  constexpr double kMove = 0.25, kLeast = 1e-4;
  const double error = product_log_error(rows, gpu, best);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kGemmCount; ++i) {
    double change = 0;
    const double from = best.at[i];
    for (const double move : {kMove, -kMove}) {
      best.at[i] = from + move;
      change = std::max(change, std::abs(product_log_error(rows, gpu, best) - error));
    }
    best.at[i] = from;
    if (change < kLeast) names.emplace_back(kGemmConstants[i].name);
  }
  return names;
}

}  // namespace

Seconds product_time(const Gpu& gpu, const GemmShape& shape) {
  return product_at(gpu.gemm, bf16_chip(gpu), gpu.kernel_launch, shape);
}

MeasuredProducts read_products(const std::filesystem::path& csv, const Gpu& gpu, std::string_view gpu_name_in_csv) {
  MeasuredTable table(csv);
  const std::size_t gpu_column = table.column("gpu"), type = table.column("dtype"), m = table.column("m"),
                    n = table.column("n"), k = table.column("k"), time = table.column("latency_us");
  const FlopsPerSecond peak = gpu.peak[static_cast<std::size_t>(Precision::bf16)];
  MeasuredProducts products;
  std::set<std::string> gpus;
  while (table.next()) {
    gpus.insert(table.text(gpu_column));
    if (table.text(gpu_column) != gpu_name_in_csv || table.text(type) != "bfloat16") continue;
    const MeasuredProduct row{{table.positive(m), table.positive(n), table.positive(k)},
                              Seconds{table.positive(time) * 1e-6}};
    const Flops flops{2 * row.shape.m * row.shape.n * row.shape.k};
    if (row.time < flops / peak) {
      products.impossible.push_back(fmt::format("{}:{}: {:.3g} FLOP in {}, above the {} of {}", table.name(),
                                                table.line(), flops.value, show(row.time), show(peak), gpu.name));
      continue;
    }
    const bool fit = goes_to_fit(fmt::format("{},{},{}", row.shape.m, row.shape.n, row.shape.k));
    (fit ? products.fitted : products.judged).push_back(row);
  }
  if (!gpus.contains(std::string(gpu_name_in_csv)))
    throw UserError(fmt::format("{}: no rows of gpu \"{}\"{}", table.name(), gpu_name_in_csv,
                                hint(std::string(gpu_name_in_csv), {gpus.begin(), gpus.end()})));
  if (std::min(products.fitted.size(), products.judged.size()) < kFewestProducts)
    throw UserError(
        fmt::format("{}: too few bfloat16 rows of gpu {} to fit and to judge: {} and {}, expected {} or more of each",
                    table.name(), gpu_name_in_csv, products.fitted.size(), products.judged.size(), kFewestProducts));
  return products;
}

GemmFit fit_gemm(const MeasuredProducts& products, const Gpu& gpu) {
  if (gpu.peak[static_cast<std::size_t>(Precision::bf16)].value <= 0 || gpu.sms == 0 || gpu.l2.value <= 0)
    throw UserError(fmt::format("gpu {}: without a peak in bf16, sms or l2 there is no model of its tiles", gpu.name));
  // Each search begins where something else bounds large products: power, the feed of the SMs, neither. One begins with
  // what the catalog has.
  std::vector<GemmPoint> starts;
  for (const double step : kInnerSteps) {
    for (const auto& [peak, feed, throttle] :
         {std::array{0.0, 0.0, 0.0}, {0.05, -0.4, -0.5}, {-0.1, 0.5, 0.4}, {0.05, -0.4, 0.4}, {-0.1, 0.3, -0.5}})
      starts.push_back({{0, peak, 0, feed, 0, throttle}, step});
    if (!gpu.gemm.given) continue;
    starts.push_back(GemmPoint::of(gpu));
    starts.back().inner_step = step;
  }
  GemmPoint point{};
  double least = HUGE_VAL;
  for (GemmPoint& start : starts) {
    const double error = pattern_search(start.at, [&] { return product_log_error(products.fitted, gpu, start); });
    if (error >= least) continue;
    least = error;
    point = start;
  }
  return {gpu.name,
          point.model(gpu),
          bf16_chip(gpu).peak,
          point.launch(),
          products.fitted.size(),
          products.judged.size(),
          product_errors(products.judged, gpu, point),
          product_errors(products.fitted, gpu, point),
          undetermined_constants(products.fitted, gpu, point)};
}

}  // namespace trainyard
