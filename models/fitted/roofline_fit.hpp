#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "models/fitted/measured_kernels.hpp"

namespace trainyard {

/// The roofline's constants for one kernel of one GPU, fitted on one half of the measured shapes and judged on the
/// other.
struct RooflineFit {
  Gpu::Efficiency efficiency;
  Seconds launch;
  std::size_t fitted = 0, judged = 0;  ///< rows
  FitErrors held_out, in_sample;
};

/// Fits a table of measured kernel times, as `read_kernels` reads it. Minimizes the mean |log(predicted / measured)| by a
/// grid that is narrowed step by step: deterministic. For attention the launch floor stays `gpu.kernel_launch`, since a
/// GPU has one. Throws UserError as `read_kernels` does.
RooflineFit fit_roofline(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                         std::string_view gpu_name_in_csv);

}  // namespace trainyard
