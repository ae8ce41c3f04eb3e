#include "models/fitted/roofline_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

using Row = MeasuredKernel;

/// Returns the time of the work without the launch, in seconds.
double roofline(const Work& work, const Gpu& gpu, const Gpu::Efficiency& c) {
  return std::max(work.flops.value / (gpu.peak[work.precision].value * c.flops),
                  work.bytes.value / (gpu.memory_bandwidth.value * c.memory));
}

double error_of(const std::vector<Row>& rows, const Gpu& gpu, const Gpu::Efficiency& c, double launch) {
  double sum = 0;
  for (const Row& row : rows) sum += std::abs(std::log((launch + roofline(row.work, gpu, c)) / row.measured.value));
  return sum / static_cast<double>(rows.size());
}

/// Returns the best point of a grid over all efficiencies, then of ever narrower grids around the best point, until the
/// grid is finer than the digits of any written figure. `memory_alone`: the share of the peak stays 1.
Gpu::Efficiency search_grid(const std::vector<Row>& rows, const Gpu& gpu, double launch, bool memory_alone) {
  constexpr int kSide = 25, kRounds = 24;
  constexpr double kLeast = 0.02, kNarrower = 0.4;
  Gpu::Efficiency centre{memory_alone ? 1 : 0.5, 0.5}, best = centre;
  double best_error = error_of(rows, gpu, best, launch), width = 1;
  for (int round = 0; round < kRounds; ++round) {
    const auto grid_value = [&](double middle, int i) {
      return std::clamp(middle + width * (static_cast<double>(i) / (kSide - 1) - 0.5), kLeast, 1.0);
    };
    for (int i = memory_alone ? kSide - 1 : 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        const Gpu::Efficiency c{grid_value(centre.flops, i), grid_value(centre.memory, j)};
        const double error = error_of(rows, gpu, c, launch);
        if (error >= best_error) continue;
        best = c;
        best_error = error;
      }
    centre = best;
    width *= kNarrower;
  }
  return best;
}

/// Returns the time beyond the roofline at the 10th percentile of the tiny kernels. Slower kernels have other reasons
/// (split-K, odd shapes).
double launch_floor(const std::vector<Row>& tiny, const Gpu& gpu, const Gpu::Efficiency& c) {
  std::vector<double> beyond;
  for (const Row& row : tiny) beyond.push_back(row.measured.value - roofline(row.work, gpu, c));
  std::sort(beyond.begin(), beyond.end());
  return std::max(0.0, sorted_quantile(beyond, 0.1));
}

}  // namespace

RooflineFit fit_roofline(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                         std::string_view gpu_name_in_csv) {
  if (gpu.peak[static_cast<std::size_t>(Precision::bf16)].value <= 0)
    throw UserError(fmt::format("gpu {} has no bf16, and the table's rows are bf16", gpu.name));
  const MeasuredKernels rows = read_kernels(csv, kernel, gpu, gpu_name_in_csv);
  Gpu judged = gpu;
  const bool memory_alone = kernel == Kernel::scan;  // no row of a scan is bound by its arithmetic
  judged.attention = {};                             // attention then takes a share of the peak for every shape
  Gpu::Efficiency& efficiency = judged.efficiency[static_cast<std::size_t>(kernel)];
  // Attention's launch takes longer, but a GPU has one launch time, and GEMM's is nearer to that of many small kernels.
  constexpr std::size_t kFewestTiny = 8;
  const bool own_launch = kernel == Kernel::gemm && rows.tiny.size() >= kFewestTiny;
  constexpr int kTurns = 4;  // few suffice: launch and efficiencies hardly depend on each other
  for (int turn = 0; turn < (own_launch ? kTurns : 1); ++turn) {
    efficiency = search_grid(rows.fitted, gpu, judged.kernel_launch.value, memory_alone);
    if (own_launch) judged.kernel_launch = Seconds{launch_floor(rows.tiny, gpu, efficiency)};
  }
  return {efficiency,
          judged.kernel_launch,
          rows.fitted.size(),
          rows.judged.size(),
          kernel_errors(rows.judged, judged),
          kernel_errors(rows.fitted, judged)};
}

}  // namespace trainyard
