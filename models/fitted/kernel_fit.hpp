#pragma once
#include <span>
#include <string>
#include <vector>

#include "models/fitted/measured_kernels.hpp"

namespace trainyard {

/// A constant of a GPU that `fit_kernel` finds, and how its entry and JSON write it.
struct KernelConstant {
  const char* key;
  double& (*of)(Gpu&);
  double start, most;  ///< of the search; of `l2_feed` over the memory bandwidth
  double unit = 1;     ///< SI, in the entry
  const char* unit_name = "";
  const char* json_unit = "";  ///< after the key
};
/// The constants that are fitted. Matrix products have the launch of a kernel, then those of `GemmModel`; attention has
/// those of `AttentionModel` but for the backward pass, which the tables do not have.
std::span<const KernelConstant> kernel_constants(Kernel);

struct KernelFit {
  Kernel kernel = Kernel::gemm;
  Gpu gpu;                             ///< with the constants that were found
  std::size_t fitted = 0, judged = 0;  ///< rows
  FitErrors held_out, in_sample;
  std::vector<std::string> undetermined;  ///< constants that the rows say nothing about; of gemm
};

/// Fits a kernel's constants on one half of the shapes, and judges them on the other. Minimizes the mean |log(predicted /
/// measured)| by pattern search from some starting points: deterministic. Which tiles there are is the chip's, and stays;
/// so do attention's launch floor, and its backward rate over the forward one. Throws UserError for a GPU without what a model of its tiles
/// needs: a peak in bf16, `sms`, for gemm `l2`.
KernelFit fit_kernel(Kernel, const MeasuredKernels&, const Gpu&);

}  // namespace trainyard
