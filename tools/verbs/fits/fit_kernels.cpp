#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/fitted/attention_fit.hpp"
#include "models/fitted/gemm_fit.hpp"
#include "models/fitted/measured_table.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/fits/fit.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using FitJson = nlohmann::ordered_json;

std::string figure(const char* key, double value, const char* unit = "") {
  return fmt::format("  {}: {{value: {:.4g}{}, source: tiles}}\n", key, value, unit);
}

/// The part of a GPU's entry that a fit makes.
std::string entry_of(const GemmFit& fit) {
  const GemmModel& m = fit.model;
  return fmt::format(
             "# {}: held-out errors: median {}, 90th percentile {}\nkernel_launch: {{value: {:.3g} us, "
             "source: tiles}}\ngemm:\n",
             fit.gpu, percent(fit.held_out.median), percent(fit.held_out.p90), fit.launch.value * 1e6) +
         fmt::format("  rated_peak: {{value: {:.5g} TFLOP/s, source: datasheet}}\n", fit.rated_peak.value * 1e-12) +
         figure("peak", m.peak) + figure("memory", m.memory) + figure("l2_feed", m.l2_feed.value / 1e12, " TB/s") +
         figure("split", m.split.value * 1e6, " us") + figure("throttle", m.throttle) +
         figure("throttle_after", m.throttle_after.value * 1e6, " us") + figure("exposed_output", m.exposed_output) +
         figure("exposed_most", m.exposed_most) + figure("cached", m.cached) + figure("inner_step", m.inner_step) +
         fmt::format("  tiles_of_256: {{value: {}, source: tiles}}\n", m.tiles_of_256);
}

std::string entry_of(const AttentionFit& fit) {
  const AttentionModel& m = fit.model;
  const auto row = [](const char* key, double value, const char* source) {
    return fmt::format("  {}: {{value: {:.3g}, source: {}}}\n", key, value, source);
  };
  return fmt::format("# {}: held-out errors: median {}, 90th percentile {}\nattention:\n", fit.gpu,
                     percent(fit.held_out.median), percent(fit.held_out.p90)) +
         row("forward", m.forward, "attention_tiles") + row("backward", m.backward, "attention_backward") +
         row("memory", m.memory, "attention_tiles") + row("tail", m.tail, "attention_tiles");
}

FitJson errors_json(const KernelErrors& e) { return {{"median", e.median}, {"mean", e.mean}, {"p90", e.p90}}; }

FitJson json_of(const GemmFit& fit) {
  const GemmModel& m = fit.model;
  return {{"gpu", fit.gpu},
          {"kernel", "gemm"},
          {"kernel_launch_s", fit.launch.value},
          {"constants",
           {{"rated_peak_FLOPps", fit.rated_peak.value},
            {"peak", m.peak},
            {"memory", m.memory},
            {"l2_feed_Bps", m.l2_feed.value},
            {"split_s", m.split.value},
            {"throttle", m.throttle},
            {"throttle_after_s", m.throttle_after.value},
            {"exposed_output", m.exposed_output},
            {"exposed_most", m.exposed_most},
            {"cached", m.cached},
            {"inner_step", m.inner_step}}},
          {"fitted", fit.fitted},
          {"judged", fit.judged},
          {"undetermined", fit.undetermined},
          {"held_out_error", errors_json(fit.held_out)},
          {"in_sample_error", errors_json(fit.in_sample)}};
}

FitJson json_of(const AttentionFit& fit) {
  const AttentionModel& m = fit.model;
  return {{"gpu", fit.gpu},
          {"kernel", "attention"},
          {"constants", {{"forward", m.forward}, {"memory", m.memory}, {"tail", m.tail}}},
          {"fitted", fit.fitted},
          {"judged", fit.judged},
          {"held_out_error", errors_json(fit.held_out)},
          {"in_sample_error", errors_json(fit.in_sample)}};
}

/// What is written of one table and GPU.
struct KernelReport {
  std::string entry, remarks;
  FitJson json;
};

KernelReport fit_table(const std::string& file, const Gpu& gpu, bool skip) {
  if (MeasuredTable(file).has_column("heads")) {
    const AttentionFit fit = fit_attention(file, gpu, gpu.measured_as);
    return {entry_of(fit), "", json_of(fit)};
  }
  const MeasuredProducts products = read_products(file, gpu, gpu.measured_as);
  if (!products.impossible.empty() && !skip)
    throw UserError(products.impossible.front() +
                    fmt::format(" ({} such rows); --skip-impossible leaves them out", products.impossible.size()));
  const GemmFit fit = fit_gemm(products, gpu);
  std::string remarks;
  for (const std::string& row : products.impossible) remarks += "# left out: " + row + "\n";
  for (const std::string& name : fit.undetermined)
    remarks +=
        fmt::format("# {}: {}: these rows do not tell; what stands there is where the search ended\n", fit.gpu, name);
  return {entry_of(fit), remarks, json_of(fit)};
}

}  // namespace

int fit_kernels(const KernelFitRequest& request) {
  if (request.files.empty())
    throw UserError("trainyard fit kernels: which tables? Give gemm.csv, attention.csv or both");
  const Catalog catalog;
  std::string text, others;
  FitJson fits = FitJson::array();
  for (const std::string& name : catalog.names("gpu")) {
    if (!request.gpu.empty() && name != fit_gpu(catalog, request.gpu).name) continue;
    const Gpu gpu = fit_gpu(catalog, name);
    if (gpu.measured_as.empty()) {
      others += fmt::format("# {}: not measured; {}\n", name,
                            gpu.gemm.given ? "takes the constants of its architecture, " + gpu.architecture
                                           : "products take a share of its peak, whatever their shape");
      continue;
    }
    for (const std::string& file : request.files) {
      const KernelReport report = fit_table(file, gpu, request.skip_impossible);
      text += report.entry + report.remarks;
      fits.push_back(report.json);
    }
  }
  if (!request.json.empty()) write_atomically(request.json, json_text(FitJson{{"fits", fits}}, 2) + "\n");
  if (request.json != "-") write_atomically(request.out.empty() ? "-" : request.out, text + others);
  return kGood;
}

}  // namespace trainyard
