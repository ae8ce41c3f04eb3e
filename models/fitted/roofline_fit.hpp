#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/fitted/held_out.hpp"
#include "models/hardware/gpu.hpp"

namespace trainyard {

/// The roofline's constants for one kernel of one GPU, fitted on one half of the measured shapes and judged on the
/// other. An error is |predicted / measured − 1|.
struct RooflineFit {
  std::string gpu;
  Kernel kernel = Kernel::gemm;
  double flops_efficiency = 1, memory_efficiency = 1;
  Seconds launch;
  int fitted = 0, judged = 0;                                                   ///< rows
  double median_error = 0, mean_error = 0, p90_error = 0;                       ///< of the rows kept out of the fit
  double fitted_median_error = 0, fitted_mean_error = 0, fitted_p90_error = 0;  ///< of the rows of the fit
};

/// Work below this is left out of fit and judgement: the kernels of a training step are larger, and what decides a
/// small kernel's time (waves of tiles over the SMs, split-K) is not in a roofline.
constexpr Flops kLeastFittedWork{1e10};

/// Fits a table of measured kernel times. Columns of gemm: gpu, dtype, m, n, k, latency_us (2mnk FLOPs; each matrix is
/// moved once); of attention: gpu, dtype, batch, heads, kv_heads, head_dim, seq, causal, latency_us (causal: half of
/// the square is counted; query, key, value and output are moved once). Rows of other GPUs and of other types than
/// bfloat16 are skipped. Minimizes the mean |log(predicted / measured)| by a grid that is narrowed step by step:
/// deterministic. For attention the launch floor stays `gpu.kernel_launch`, since a GPU has one. Throws UserError
/// (file:line) for a row that cannot be read, for a GPU that is not there, and for other kernels.
RooflineFit fit_roofline(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                         std::string_view gpu_name_in_csv);

/// A measured kernel.
struct MeasuredKernel {
  Work work;
  Seconds measured;
};
/// Kernels of one GPU, as a table has them.
struct MeasuredKernels {
  std::vector<MeasuredKernel> fitted, judged;
  std::vector<MeasuredKernel> tiny;  ///< of the half that is fitted: kernels that are nearly all launch
};
/// The rows that `fit_roofline` goes by; attention's with their shapes. Throws UserError as it does.
MeasuredKernels read_kernels(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                             std::string_view gpu_name_in_csv);
/// Of what the chip's constants give for them. Throws InternalError without any.
KernelErrors kernel_errors(const std::vector<MeasuredKernel>&, const Gpu&);

/// A measured kernel beside what the chip's constants give.
struct JudgedKernel {
  Work work;
  Seconds predicted, measured;
};
/// The rows that such a fit judges.
std::vector<JudgedKernel> judge_roofline(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                                         std::string_view gpu_name_in_csv);

}  // namespace trainyard
