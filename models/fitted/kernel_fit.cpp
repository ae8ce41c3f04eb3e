#include "models/fitted/kernel_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace trainyard {
namespace {

// Searches begin between the figures of the three GPUs that the tables measure.
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

/// A point from which a search begins: logarithms of the constants over their starts, and what is tried one by one.
struct Start {
  std::vector<double> at;
  double inner_step;
};

/// Each search begins where something else bounds large products: power, the feed of the SMs, neither. One begins with
/// what the catalog has.
std::vector<Start> gemm_starts(const Gpu& gpu) {
  // Tiles of CUTLASS and cuBLAS go through 32 or 64 elements of 16 bits at a time (128x256_32x3, 128x256_64x3).
  constexpr double kInnerSteps[] = {32, 64};
  std::vector<Start> starts;
  for (const double step : kInnerSteps) {
    for (const auto& [peak, feed, throttle] :
         {std::array{0.0, 0.0, 0.0}, {0.05, -0.4, -0.5}, {-0.1, 0.5, 0.4}, {0.05, -0.4, 0.4}, {-0.1, 0.3, -0.5}})
      starts.push_back({{0, peak, 0, feed, 0, throttle, 0, 0, 0, 0}, step});
    if (!gpu.gemm.given) continue;
    std::vector<double>& at = starts.emplace_back(Start{{}, step}).at;
    Gpu known = gpu;
    known.gemm.l2_feed.value /= gpu.memory_bandwidth.value;
    for (const KernelConstant& c : kGemmConstants) {
      const double least = c.start * 1e-3;  // a logarithm is taken of it
      at.push_back(std::log(std::max(c.of(known), least) / c.start));
    }
  }
  return starts;
}

/// Whether a model of a kernel's tiles is to be had of the chip.
void require_tiles(Kernel kernel, const Gpu& gpu) {
  const bool known = gpu.peak[static_cast<std::size_t>(Precision::bf16)].value > 0 && gpu.sms > 0;
  if (kernel == Kernel::attention && !known)
    throw UserError(
        fmt::format("gpu {}: without a peak in bf16 or sms there is no model of attention's tiles", gpu.name));
  if (kernel == Kernel::gemm && (!known || gpu.l2.value <= 0))
    throw UserError(fmt::format("gpu {}: without a peak in bf16, sms or l2 there is no model of its tiles", gpu.name));
}

}  // namespace

std::span<const KernelConstant> kernel_constants(Kernel kernel) {
  if (kernel == Kernel::attention) return kAttentionConstants;
  return kGemmConstants;
}

KernelFit fit_kernel(Kernel kernel, const MeasuredKernels& rows, const Gpu& gpu) {
  // FlashAttention-2 on A100: what Dao (2023) and closed-form models of measured steps have for backward and forward.
  constexpr double kBackwardShare = 0.52 / 0.64;
  require_tiles(kernel, gpu);
  const bool gemm = kernel == Kernel::gemm;
  Gpu tried = gpu;
  if (gemm) {
    tried.gemm = {};
    tried.gemm.given = true;
    tried.gemm.tiles_of_256 = gpu.gemm.tiles_of_256;
  } else {
    tried.attention.given = true;
  }
  std::vector<SearchedConstant> constants;
  for (const KernelConstant& c : kernel_constants(kernel))
    constants.push_back({c.key, &c.of(tried), c.start, c.most,
                         &c.of(tried) == &tried.gemm.l2_feed.value ? gpu.memory_bandwidth.value : 1});
  const auto error = [&] {
    if (!gemm) tried.attention.backward = tried.attention.forward * kBackwardShare;
    return mean_log_error(rows.fitted, tried);
  };
  std::vector<SearchedConstant> best;
  double least = HUGE_VAL, step = 0;
  const std::vector<Start> of_attention{{{0, 0, 0}, 0}, {{0, 0.5, 1}, 0}, {{0, -0.5, -1}, 0}};
  for (const Start& start : gemm ? gemm_starts(gpu) : of_attention) {
    for (std::size_t i = 0; i < constants.size(); ++i) constants[i].at = start.at[i];
    if (gemm) tried.gemm.inner_step = start.inner_step;
    const double found = search(constants, error);
    if (found >= least) continue;
    least = found;
    best = constants;
    step = start.inner_step;
  }
  if (gemm) tried.gemm.inner_step = step;
  for (SearchedConstant& c : best) c.move_to(c.at);
  error();  // takes what goes with them
  KernelFit fit{kernel,
                tried,
                rows.fitted.size(),
                rows.judged.size(),
                kernel_errors(rows.judged, tried),
                kernel_errors(rows.fitted, tried),
                {}};
  // A quarter more or less changes nothing.
  constexpr double kMove = 0.25, kLeastFelt = 1e-4;
  if (gemm) fit.undetermined = unfelt(best, kMove, error, [&](double e) { return std::abs(e - least) >= kLeastFelt; });
  return fit;
}

}  // namespace trainyard
