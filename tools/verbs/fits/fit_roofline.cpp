#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/fitted/roofline_fit.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/fits/fit.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

fs::path data_folder(std::string given) {
  const char* environment = std::getenv("TRAINYARD_DATA");
  if (given.empty() && environment) given = environment;
  if (given.empty())
    throw UserError("trainyard fit: where are the measured tables? Give --data DIR, or set TRAINYARD_DATA");
  std::error_code ignored;
  if (!fs::is_directory(given, ignored))
    throw UserError(fmt::format("trainyard fit: --data {}: no such folder", given));
  return given;
}

/// The GPUs of the catalog that the tables know; or the one that was asked for.
std::vector<Gpu> measured_gpus(const std::string& wanted) {
  const Catalog catalog;
  std::vector<Gpu> measured;
  std::vector<std::string> names;
  for (const std::string& name : catalog.names("gpu")) {
    Gpu gpu = fit_gpu(catalog, name);
    if (gpu.measured_as.empty()) continue;
    names.push_back(name);
    measured.push_back(std::move(gpu));
  }
  if (wanted.empty()) return measured;
  Gpu gpu = fit_gpu(catalog, wanted);
  if (gpu.measured_as.empty())
    throw UserError(fmt::format("trainyard fit: --gpu {}: no kernels of it were measured; known: {}", gpu.name,
                                fmt::join(names, ", ")));
  return {std::move(gpu)};
}

/// Fitted, and beside it what the catalog has.
std::string beside(const std::string& fitted, const std::string& now) { return fmt::format("{} ({})", fitted, now); }

std::vector<std::string> row_of(const RooflineFit& fit, const Gpu& gpu) {
  const Gpu::Efficiency& now = gpu.efficiency[static_cast<std::size_t>(fit.kernel)];
  const auto share = [](double v) { return fmt::format("{:.3f}", v); };
  const auto errors = [](double median, double mean, double p90) {
    return fmt::format("{} / {} / {}", percent(median), percent(mean), percent(p90));
  };
  return {fit.gpu,
          name_of(fit.kernel),
          beside(share(fit.flops_efficiency), share(now.flops)),
          beside(share(fit.memory_efficiency), share(now.memory)),
          beside(show(fit.launch), show(gpu.kernel_launch)),
          fmt::format("{} / {}", fit.fitted, fit.judged),
          errors(fit.median_error, fit.mean_error, fit.p90_error),
          errors(fit.fitted_median_error, fit.fitted_mean_error, fit.fitted_p90_error)};
}

ordered_json json_of(const RooflineFit& fit, const Gpu& gpu) {
  const Gpu::Efficiency& now = gpu.efficiency[static_cast<std::size_t>(fit.kernel)];
  return {{"gpu", fit.gpu},
          {"kernel", name_of(fit.kernel)},
          {"flops_efficiency", fit.flops_efficiency},
          {"memory_efficiency", fit.memory_efficiency},
          {"kernel_launch_s", fit.launch.value},
          {"catalog",
           {{"flops_efficiency", now.flops},
            {"memory_efficiency", now.memory},
            {"kernel_launch_s", gpu.kernel_launch.value}}},
          {"fitted", fit.fitted},
          {"judged", fit.judged},
          {"held_out_error", {{"median", fit.median_error}, {"mean", fit.mean_error}, {"p90", fit.p90_error}}},
          {"in_sample_error",
           {{"median", fit.fitted_median_error}, {"mean", fit.fitted_mean_error}, {"p90", fit.fitted_p90_error}}}};
}

}  // namespace

int fit_rooflines(const std::string& data, const std::string& gpu_name, const std::string& json) {
  const fs::path folder = data_folder(data);

  TextTable table{
      {"gpu", "kernel", "FLOPs", "memory", "launch", "fitted/judged", "held-out error", "in-sample error"}, {}, {}};
  ordered_json out = ordered_json::array();
  for (Gpu& gpu : measured_gpus(gpu_name)) {
    const Gpu now = gpu;
    for (const Kernel kernel : {Kernel::gemm, Kernel::attention}) {
      const RooflineFit fitted =
          fit_roofline(folder / fmt::format("{}.csv", name_of(kernel)), kernel, gpu, gpu.measured_as);
      gpu.kernel_launch = fitted.launch;  // that of GEMM is attention's too
      table.rows.push_back(row_of(fitted, now));
      out.push_back(json_of(fitted, now));
    }
  }
  if (!json.empty()) write_atomically(json, json_text(ordered_json{{"fits", out}}, 2) + "\n");
  if (json != "-")
    write_atomically(
        "-", fmt::format("roofline, bf16; in parentheses: the catalog; errors: median / mean / 90th percentile\n{}",
                         table.text()));
  return kGood;
}

}  // namespace trainyard
