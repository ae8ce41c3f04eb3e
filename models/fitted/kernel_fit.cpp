#include "models/fitted/kernel_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace trainyard {
namespace {

// The starts lie between the figures of the three GPUs in the measured tables.
constexpr KernelConstant kGemmConstants[] = {
    {"kernel_launch", [](Gpu& g) -> double& { return g.kernel_launch.value; }, 2.5e-6, 1e-3, 1e-6, " us", "_s"},
    {"peak", [](Gpu& g) -> double& { return g.gemm.peak; }, 0.88, 1},
    {"memory", [](Gpu& g) -> double& { return g.gemm.memory; }, 0.8, 1},
    {"l2_feed", [](Gpu& g) -> double& { return g.gemm.l2_feed.value; }, 3, 100, 1e12, " TB/s", "_Bps"},
    {"split", [](Gpu& g) -> double& { return g.gemm.split.value; }, 3e-6, 1e-3, 1e-6, " us", "_s"},
    {"throttle", [](Gpu& g) -> double& { return g.gemm.throttle; }, 0.2, 10},
    {"throttle_after", [](Gpu& g) -> double& { return g.gemm.throttle_after.value; }, 900e-6, 1, 1e-6, " us", "_s"},
    {"exposed_output", [](Gpu& g) -> double& { return g.gemm.exposed_output; }, 0.5, 10},
    {"exposed_most", [](Gpu& g) -> double& { return g.gemm.exposed_most; }, 1, 10},
    {"cached", [](Gpu& g) -> double& { return g.gemm.cached; }, 0.05, 1}};
constexpr KernelConstant kAttentionConstants[] = {
    {"forward", [](Gpu& g) -> double& { return g.attention.forward; }, 0.6, 1},
    {"memory", [](Gpu& g) -> double& { return g.attention.memory; }, 0.5, 1},
    {"tail", [](Gpu& g) -> double& { return g.attention.tail; }, 0.5, HUGE_VAL}};
constexpr double kPairs = 2e12;  // pairs of a query and a key a second
constexpr KernelConstant kTrainingAttentionConstants[] = {
    {"forward", [](Gpu& g) -> double& { return g.attention.forward; }, 0.7, 1},
    {"backward", [](Gpu& g) -> double& { return g.attention.backward; }, 0.55, 1},
    {"memory", [](Gpu& g) -> double& { return g.attention.memory; }, 0.7, 1},
    {"tail", [](Gpu& g) -> double& { return g.attention.tail; }, 0.5, HUGE_VAL},
    {"softmax", [](Gpu& g) -> double& { return g.attention.softmax; }, kPairs, HUGE_VAL},
    {"fp8.forward", [](Gpu& g) -> double& { return g.attention.fp8.forward; }, kPairs, HUGE_VAL},
    {"fp8.backward", [](Gpu& g) -> double& { return g.attention.fp8.backward; }, kPairs / 2, HUGE_VAL},
    {"fp8_block.forward", [](Gpu& g) -> double& { return g.attention.fp8_block.forward; }, kPairs, HUGE_VAL},
    {"fp8_block.backward", [](Gpu& g) -> double& { return g.attention.fp8_block.backward; }, kPairs / 2, HUGE_VAL}};

/// A point from which a search begins: logarithms of the constants relative to their starts, and a fixed inner step.
struct Start {
  std::vector<double> logarithms;
  double inner_step;
};

/// Each search begins with another limit of large products: power, the rate to the SMs, or neither. One search begins
/// with the constants of the catalog.
std::vector<Start> gemm_starts(const Gpu& gpu) {
  // Tiles of CUTLASS and cuBLAS process 32 or 64 elements of 16 bits at a time (128x256_32x3, 128x256_64x3).
  constexpr double kInnerSteps[] = {32, 64};
  std::vector<Start> starts;
  for (const double step : kInnerSteps) {
    for (const auto& [peak, feed, throttle] :
         {std::array{0.0, 0.0, 0.0}, {0.05, -0.4, -0.5}, {-0.1, 0.5, 0.4}, {0.05, -0.4, 0.4}, {-0.1, 0.3, -0.5}})
      starts.push_back({{0, peak, 0, feed, 0, throttle, 0, 0, 0, 0}, step});
    if (!gpu.gemm.is_given) continue;
    std::vector<double>& logarithms = starts.emplace_back(Start{{}, step}).logarithms;
    Gpu catalog_gpu = gpu;
    catalog_gpu.gemm.l2_feed.value /= gpu.memory_bandwidth.value;
    for (const KernelConstant& c : kGemmConstants) {
      const double least = c.start * 1e-3;  // so that it has a logarithm
      logarithms.push_back(std::log(std::max(c.constant(catalog_gpu), least) / c.start));
    }
  }
  return starts;
}

/// Throws UserError if the chip lacks a figure that the model of a kernel's tiles needs.
void require_tiles(Kernel kernel, const Gpu& gpu) {
  const bool has_peak_and_sms = gpu.peak[static_cast<std::size_t>(Precision::bf16)].value > 0 && gpu.sms > 0;
  if (kernel == Kernel::attention && !has_peak_and_sms)
    throw UserError(
        fmt::format("gpu {}: without a peak in bf16 or sms there is no model of attention's tiles", gpu.name));
  if (kernel == Kernel::gemm && (!has_peak_and_sms || gpu.l2.value <= 0))
    throw UserError(fmt::format("gpu {}: without a peak in bf16, sms or l2 there is no model of its tiles", gpu.name));
}

std::span<const KernelConstant> constants_of(Kernel kernel, bool in_training) {
  if (kernel == Kernel::gemm) return kGemmConstants;
  if (in_training) return kTrainingAttentionConstants;
  return kAttentionConstants;
}

/// Each search begins with another share of the memory bandwidth and another tail.
std::vector<Start> attention_starts(std::span<const KernelConstant> constants) {
  std::vector<Start> starts;
  for (const auto& [memory, tail] : {std::pair{0.0, 0.0}, {0.5, 1.0}, {-0.5, -1.0}}) {
    std::vector<double>& logarithms = starts.emplace_back(Start{{}, 0}).logarithms;
    for (const KernelConstant& c : constants)
      logarithms.push_back(std::string_view(c.key) == "memory" ? memory : std::string_view(c.key) == "tail" ? tail : 0);
  }
  return starts;
}

}  // namespace

KernelFit fit_kernel(Kernel kernel, const MeasuredKernels& rows, const Gpu& gpu) {
  // FlashAttention-2 on A100: backward and forward shares of Dao (2023) and of closed-form models of measured steps.
  constexpr double kBackwardShare = 0.52 / 0.64;
  require_tiles(kernel, gpu);
  const bool gemm = kernel == Kernel::gemm;
  Gpu trial = gpu;
  if (gemm) {
    trial.gemm = {};
    trial.gemm.is_given = true;
    trial.gemm.tiles_of_256 = gpu.gemm.tiles_of_256;
  } else {
    trial.attention.is_given = true;
  }
  std::vector<SearchedConstant> constants;
  const std::span<const KernelConstant> searched = constants_of(kernel, rows.in_training);
  for (const KernelConstant& c : searched)
    constants.push_back({c.key, &c.constant(trial), c.start, c.most,
                         &c.constant(trial) == &trial.gemm.l2_feed.value ? gpu.memory_bandwidth.value : 1});
  const auto error = [&] {
    if (!gemm && !rows.in_training) trial.attention.backward = trial.attention.forward * kBackwardShare;
    return mean_log_error(rows.fitted, trial);
  };
  std::vector<SearchedConstant> best;
  double least = HUGE_VAL, step = 0;
  for (const Start& start : gemm ? gemm_starts(gpu) : attention_starts(searched)) {
    for (std::size_t i = 0; i < constants.size(); ++i) constants[i].logarithm = start.logarithms[i];
    if (gemm) trial.gemm.inner_step = start.inner_step;
    const double least_of_start = search(constants, error);
    if (least_of_start >= least) continue;
    least = least_of_start;
    best = constants;
    step = start.inner_step;
  }
  if (gemm) trial.gemm.inner_step = step;
  for (SearchedConstant& c : best) c.move_to(c.logarithm);
  error();  // also sets attention's backward rate
  KernelFit fit{kernel,
                searched,
                trial,
                rows.fitted.size(),
                rows.judged.size(),
                kernel_errors(rows.judged, trial),
                kernel_errors(rows.fitted, trial),
                {}};
  // A constant is undetermined if moving its logarithm by a quarter hardly changes the error.
  constexpr double kMove = 0.25, kLeastFelt = 1e-4;
  fit.undetermined = unfelt(best, kMove, error, [&](double e) { return std::abs(e - least) >= kLeastFelt; });
  return fit;
}

}  // namespace trainyard
