#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/fitted/held_out.hpp"
#include "models/hardware/gpu.hpp"

namespace trainyard {

struct MeasuredProduct {
  GemmShape shape;
  Seconds time;
};

/// Matrix products of one GPU in bf16, as a table has them.
struct MeasuredProducts {
  std::vector<MeasuredProduct> fitted, judged;
  std::vector<std::string> impossible;  ///< "file:line: …": rows that are left out
};

/// Columns gpu, dtype, m, n, k, latency_us; rows of other GPUs and of other types than bfloat16 are skipped. A time that
/// is below the FLOPs over the datasheet's peak is impossible. Throws UserError (file:line) for a row that cannot be
/// read, and where there are too few.
MeasuredProducts read_products(const std::filesystem::path& csv, const Gpu&, std::string_view gpu_name_in_csv);

/// The constants of `GemmModel`, fitted on one half of the shapes and judged on the other.
struct GemmFit {
  std::string gpu;
  GemmModel model;
  FlopsPerSecond rated_peak;  ///< of the chip, in bf16
  Seconds launch;
  std::size_t fitted = 0, judged = 0;
  KernelErrors held_out, in_sample;
  std::vector<std::string> undetermined;  ///< constants that the rows say nothing about
};

/// Minimizes the mean |log(predicted / measured)| by pattern search from one starting point: deterministic. Which tiles
/// there are is the chip's, and stays.
GemmFit fit_gemm(const MeasuredProducts&, const Gpu&);

/// Of one product in bf16 with the chip's constants, launch included.
Seconds product_time(const Gpu&, const GemmShape&);

}  // namespace trainyard
