#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "models/fitted/measured_kernels.hpp"

namespace trainyard {

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
