#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "models/fitted/held_out.hpp"
#include "models/hardware/gpu.hpp"

namespace trainyard {

/// The constants of `AttentionModel` but for the backward pass, which the tables do not have, fitted on one half of the
/// shapes and judged on the other.
struct AttentionFit {
  std::string gpu;
  AttentionModel model;
  std::size_t fitted = 0, judged = 0;  ///< rows
  KernelErrors held_out, in_sample;
};

/// The table as `fit_roofline` reads attention's. Minimizes the mean |log(predicted / measured)| by pattern search:
/// deterministic. The launch floor stays `gpu.kernel_launch`; the backward pass keeps its share of the forward one's rate.
/// Throws UserError (file:line) as `fit_roofline` does, and for a GPU without `sms`.
AttentionFit fit_attention(const std::filesystem::path& csv, const Gpu& gpu, std::string_view gpu_name_in_csv);

}  // namespace trainyard
