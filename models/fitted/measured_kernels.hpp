#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/fitted/fitting.hpp"
#include "models/hardware/gpu.hpp"

namespace trainyard {

/// Work below this is left out of fit and judgement of rooflines: the kernels of a training step are larger, and what
/// decides a small kernel's time (waves of tiles over the SMs, split-K) is not in a roofline.
constexpr Flops kLeastFittedWork{1e10};

struct MeasuredKernel {
  Work work;                         ///< a matrix product's as a roofline sees it, attention's of its shape
  std::optional<GemmShape> product;  ///< where it is to be priced by its tiles
  Seconds measured;
};

/// Kernels of one GPU in bf16, as a table has them.
struct MeasuredKernels {
  std::vector<MeasuredKernel> fitted, judged;
  std::vector<MeasuredKernel> tiny;     ///< of the half that is fitted: kernels that are nearly all launch
  std::vector<std::string> impossible;  ///< "file:line: …": rows that are left out
};

/// The rows that rooflines and the tiles of attention are fitted to: those of `kLeastFittedWork` and more. Columns of gemm:
/// gpu, dtype, m, n, k, latency_us (2mnk FLOPs; each matrix is moved once); of attention: gpu, dtype, batch, heads,
/// kv_heads, head_dim, seq, causal, latency_us (causal: half of the square is counted; query, key, value and output are
/// moved once). Rows of other GPUs and of other types than bfloat16 are skipped. Throws UserError (file:line) for a row
/// that cannot be read, for a GPU that is not there, where there are too few, and for other kernels.
MeasuredKernels read_kernels(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                             std::string_view gpu_name_in_csv);
/// The rows of gemm that the tiles of matrix products are fitted to, whatever their size. A time that is below the FLOPs
/// over the datasheet's peak is impossible. Throws UserError as above.
MeasuredKernels read_products(const std::filesystem::path& csv, const Gpu&, std::string_view gpu_name_in_csv);

/// Of one product in bf16 with the chip's constants, launch included.
Seconds product_time(const Gpu&, const GemmShape&);
/// What the chip's constants give for a row.
Seconds predicted_time(const Gpu&, const MeasuredKernel&);
/// The mean of |log(predicted / measured)|, which fits minimize.
double mean_log_error(const std::vector<MeasuredKernel>&, const Gpu&);
/// Throws InternalError without any rows.
FitErrors kernel_errors(const std::vector<MeasuredKernel>&, const Gpu&);

}  // namespace trainyard
