#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/fitted/measured_kernels.hpp"

namespace trainyard {

/// A constant of a GPU that `fit_kernel` finds, and its units in the catalog entry and in JSON.
struct KernelConstant {
  const char* key;
  double& (*constant)(Gpu&);   ///< returns the constant of a GPU
  double start, most;          ///< first value and upper bound of the search; for `l2_feed`, ratio to memory bandwidth
  double unit = 1;             ///< SI value of the unit in the entry
  const char* unit_name = "";  ///< name of that unit, with a leading space
  const char* json_unit = "";  ///< suffix of the JSON key
};

struct KernelFit {
  Kernel kernel = Kernel::gemm;
  /// For matrix products the kernel launch, then those of `GemmModel`. For attention in training those of
  /// `AttentionModel`; else only those of its forward pass in 16 bits.
  std::span<const KernelConstant> constants;
  Gpu gpu;                                ///< the GPU with the fitted constants
  std::size_t fitted = 0, judged = 0;     ///< numbers of rows
  FitErrors held_out, in_sample;          ///< errors of the judged and of the fitted rows
  std::vector<std::string> undetermined;  ///< constants that the rows do not determine
};

/// Fits a kernel's constants to one half of the shapes and judges them on the other half. Minimizes the mean
/// |log(predicted / measured)| by pattern search from several starting points. Deterministic. Not fitted are the shape
/// of the tiles, attention's launch time and, without rows of training, its backward rate. Throws UserError for a
/// GPU that lacks a figure of the model: a peak in bf16, `sms`, and for gemm `l2`.
KernelFit fit_kernel(Kernel, const MeasuredKernels&, const Gpu&);

/// Constants of the roofline for one kernel of one GPU, fitted to one half of the measured shapes and judged on the
/// other half.
struct RooflineFit {
  Gpu::Efficiency efficiency;
  Seconds launch;
  std::size_t fitted = 0, judged = 0;  ///< numbers of rows
  FitErrors held_out, in_sample;
};

/// Fits a table of measured kernel times, as `read_kernels` reads it. Minimizes the mean |log(predicted / measured)| on
/// a grid that is narrowed step by step. Deterministic. For attention the launch time stays `gpu.kernel_launch`,
/// because a GPU has one launch time for all kernels. Throws UserError like `read_kernels`.
RooflineFit fit_roofline(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                         std::string_view gpu_name_in_csv);

}  // namespace trainyard
