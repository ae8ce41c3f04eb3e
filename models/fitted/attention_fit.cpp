#include "models/fitted/attention_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/fitted/pattern_search.hpp"
#include "models/fitted/roofline_fit.hpp"

namespace trainyard {
namespace {

// Of FlashAttention-2 on A100: what Dao (2023) and closed-form models of measured steps have for backward and forward.
constexpr double kBackwardShare = 0.52 / 0.64;
constexpr std::size_t kAttentionConstants = 3;
using AttentionPoint = std::array<double, kAttentionConstants>;  // logarithms, of what the search starts with

AttentionModel attention_model_at(const AttentionPoint& at) {
  constexpr double forward = 0.6, memory = 0.5, tail = 0.5;
  AttentionModel model;
  model.given = true;
  model.forward = std::min(1.0, forward * std::exp(at[0]));
  model.backward = model.forward * kBackwardShare;
  model.memory = std::min(1.0, memory * std::exp(at[1]));
  model.tail = tail * std::exp(at[2]);
  return model;
}

double attention_log_error(const std::vector<MeasuredKernel>& rows, const Gpu& gpu) {
  double sum = 0;
  for (const MeasuredKernel& row : rows) sum += std::abs(std::log(kernel_time(gpu, row.work) / row.measured));
  return sum / static_cast<double>(rows.size());
}

}  // namespace

AttentionFit fit_attention(const std::filesystem::path& csv, const Gpu& gpu, std::string_view gpu_name_in_csv) {
  if (gpu.peak[static_cast<std::size_t>(Precision::bf16)].value <= 0 || gpu.sms == 0)
    throw UserError(
        fmt::format("gpu {}: without a peak in bf16 or sms there is no model of attention's tiles", gpu.name));
  const MeasuredKernels rows = read_kernels(csv, Kernel::attention, gpu, gpu_name_in_csv);
  Gpu tried = gpu;
  AttentionModel best;
  double least = HUGE_VAL;
  for (AttentionPoint at : {AttentionPoint{}, AttentionPoint{0, 0.5, 1}, AttentionPoint{0, -0.5, -1}}) {
    const double error = pattern_search(at, [&] {
      tried.attention = attention_model_at(at);
      return attention_log_error(rows.fitted, tried);
    });
    if (error >= least) continue;
    least = error;
    best = attention_model_at(at);
  }
  tried.attention = best;
  return {gpu.name,
          best,
          rows.fitted.size(),
          rows.judged.size(),
          kernel_errors(rows.judged, tried),
          kernel_errors(rows.fitted, tried)};
}

}  // namespace trainyard
