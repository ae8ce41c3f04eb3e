#pragma once
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/fitted/fitting.hpp"
#include "models/hardware/gpu.hpp"

namespace trainyard {

/// Rooflines are neither fitted to smaller work nor judged by it. The kernels of a training step are larger, and a
/// roofline does not model the causes of a small kernel's time (waves of tiles over the SMs, split-K).
constexpr Flops kLeastFittedWork{1e10};
/// Scans and their convolutions that take less time than this at the datasheet's memory bandwidth are neither fitted
/// nor judged.
constexpr Seconds kLeastFittedScan{50e-6};

struct MeasuredKernel {
  Work work;                         ///< a matrix product's without shape, attention's with its shape
  std::optional<GemmShape> product;  ///< no value: the time is predicted from `work`
  Seconds measured;
};

/// Measured kernels of one GPU in bf16, from one table.
struct MeasuredKernels {
  std::vector<MeasuredKernel> fitted, judged;
  std::vector<MeasuredKernel> tiny;     ///< kernels of the fitted half whose time is nearly all launch
  std::vector<std::string> impossible;  ///< rows that are left out: "file:line: …"
  bool in_training = false;             ///< attention of both passes and of several formats
};

/// A table of measured kernels.
struct KernelTable {
  std::filesystem::path csv;
  std::set<std::string> gpus;  ///< GPUs that have rows, as the table names them
  bool has_attention = false;  ///< its rows are attention; otherwise matrix products

  /// Throws UserError if the table cannot be read.
  explicit KernelTable(const std::filesystem::path&);
  /// Returns the table's name for a GPU: `measured_as`, or else the catalog's; "" if the GPU has no rows.
  std::string name_of_gpu(const Gpu&) const;
};

/// Reads the rows for fits of rooflines and of attention's tiles: those of at least `kLeastFittedWork`. Columns for
/// gemm: gpu, dtype, m, n, k, latency_us (2mnk FLOPs; each matrix is moved once). Columns for attention: gpu, dtype,
/// batch, heads, kv_heads, head_dim, seq, causal, latency_us (causal: half of the square is counted; query, key, value
/// and output are moved once). Columns for attention's kernels in training, of 16 bits, fp8 and mxfp8: gpu, dtype, pass,
/// batch, heads, kv_heads, head_dim, value_dim, seq, causal, window, latency_us; they are read whatever their size and
/// type. Columns for scans: gpu, family, kernel, heads_v, head_dim_v, groups_or_k_heads,
/// state_or_k_dim, chunk, d_conv, batch, seq_len, latency_us (the bytes of `scan_kernels.hpp`). Rows of other GPUs and
/// of other types than bfloat16 are skipped. Throws UserError (file:line) for a row that cannot be read, a GPU without
/// rows, too few rows, and other kernels.
MeasuredKernels read_kernels(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                             std::string_view gpu_name_in_csv);
/// Reads the rows for fits of the tiles of matrix products, of any size. A row is impossible, and left out, if its time
/// is shorter than its FLOPs at the datasheet's peak. Throws UserError like `read_kernels`.
MeasuredKernels read_products(const std::filesystem::path& csv, const Gpu&, std::string_view gpu_name_in_csv);

/// Reads the rows of products with operands of 8 or fewer bits, of type `dtype`, for example "nvfp4". Types that begin
/// with "fp8_block" have a scale for each block. Nothing is fitted to the rows one by one. Throws UserError like
/// `read_kernels`.
std::vector<MeasuredKernel> read_narrow_products(const std::filesystem::path& csv, std::string_view gpu_name_in_csv,
                                                 std::string_view dtype, Precision);

/// Returns the time of one product in bf16 with the chip's constants, including the launch.
Seconds product_time(const Gpu&, const GemmShape&);
/// Returns the time that the chip's constants predict for a row.
Seconds predicted_time(const Gpu&, const MeasuredKernel&);
/// Returns the mean of |log(predicted / measured)|, which fits minimize.
double mean_log_error(const std::vector<MeasuredKernel>&, const Gpu&);
/// Throws InternalError if there are no rows.
FitErrors kernel_errors(const std::vector<MeasuredKernel>&, const Gpu&);

}  // namespace trainyard
