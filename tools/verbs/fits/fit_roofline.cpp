#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/fitted/kernel_fit.hpp"
#include "models/fitted/measured_table.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/fits/fit.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

fs::path data_folder(std::string folder) {
  const char* environment = std::getenv("TRAINYARD_DATA");
  if (folder.empty() && environment) folder = environment;
  if (folder.empty())
    throw UserError("trainyard fit: the folder of measured tables is missing: give --data DIR, or set TRAINYARD_DATA");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw UserError(fmt::format("trainyard fit: --data {}: no such folder", folder));
  return folder;
}

/// The GPUs of the catalog that the tables have, or only the GPU `wanted`. Throws UserError if the tables lack it.
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
    throw UserError(fmt::format("trainyard fit: --gpu {}: the tables have no kernels of this GPU; they have: {}",
                                gpu.name, fmt::join(names, ", ")));
  return {std::move(gpu)};
}

/// Returns true if the table exists and has rows of this GPU. Scans were not measured on all GPUs.
bool has_rows(const fs::path& csv, const std::string& gpu) {
  std::error_code ignored;
  if (!fs::exists(csv, ignored)) return false;
  MeasuredTable table(csv, {"gpu"});
  while (table.next())
    if (table.text("gpu") == gpu) return true;
  return false;
}

/// The fitted value, with the catalog's value in parentheses.
std::string with_catalog_value(const std::string& fitted, const std::string& now) {
  return fmt::format("{} ({})", fitted, now);
}

std::vector<std::string> row_of(const RooflineFit& fit, Kernel kernel, const Gpu& gpu) {
  const Gpu::Efficiency& now = gpu.efficiency[static_cast<std::size_t>(kernel)];
  const auto share = [](double v) { return fmt::format("{:.3f}", v); };
  const auto errors = [](const FitErrors& e) {
    return fmt::format("{} / {} / {}", percent(e.median), percent(e.mean), percent(e.p90));
  };
  return {gpu.name,
          name_of(kernel),
          with_catalog_value(share(fit.efficiency.flops), share(now.flops)),
          with_catalog_value(share(fit.efficiency.memory), share(now.memory)),
          with_catalog_value(show(fit.launch), show(gpu.kernel_launch)),
          fmt::format("{} / {}", fit.fitted, fit.judged),
          errors(fit.held_out),
          errors(fit.in_sample)};
}

ordered_json constants_json(const Gpu::Efficiency& efficiency, Seconds launch) {
  return {{"flops_efficiency", efficiency.flops},
          {"memory_efficiency", efficiency.memory},
          {"kernel_launch_s", launch.value}};
}

ordered_json json_of(const RooflineFit& fit, Kernel kernel, const Gpu& gpu) {
  ordered_json json{{"gpu", gpu.name}, {"kernel", name_of(kernel)}};
  json.update(constants_json(fit.efficiency, fit.launch));
  json["catalog"] = constants_json(gpu.efficiency[static_cast<std::size_t>(kernel)], gpu.kernel_launch);
  json["fitted"] = fit.fitted;
  json["judged"] = fit.judged;
  json["held_out_error"] = errors_json(fit.held_out);
  json["in_sample_error"] = errors_json(fit.in_sample);
  return json;
}

std::vector<FieldRow> fit_roofline_json_rows() {
  std::vector<FieldRow> rows{
      {"fits", "list", "a fit for each GPU and kind of kernel", ""},
      {"fits[].gpu", "text", "name of the GPU", ""},
      {"fits[].kernel", "text", "kind of the kernels", ""},
      {"fits[].flops_efficiency", "share", "share of the peak that kernels reach", ""},
      {"fits[].memory_efficiency", "share", "share of the memory bandwidth that kernels reach", ""},
      {"fits[].kernel_launch_s", "s", "shortest time of a kernel", ""},
      {"fits[].catalog", "object", "constants of the catalog", ""},
      {"fits[].catalog.flops_efficiency", "share", "share of the peak that kernels reach", ""},
      {"fits[].catalog.memory_efficiency", "share", "share of the memory bandwidth that kernels reach", ""},
      {"fits[].catalog.kernel_launch_s", "s", "shortest time of a kernel", ""},
      {"fits[].fitted", "number", "number of rows that were fitted", ""},
      {"fits[].judged", "number", "number of rows that the fit did not use", ""}};
  add_error_rows(rows, "fits[].");
  return rows;
}
const RegisterJsonReference fit_roofline_json_reference{
    "fit roofline", "efficiencies of kernels and their shortest time", fit_roofline_json_rows};

}  // namespace

int fit_rooflines(const FitRequest& request) {
  const fs::path folder = data_folder(request.data);
  TextTable table{"gpu", "kernel", "FLOPs", "memory", "launch", "fitted/judged", "held-out error", "in-sample error"};
  ordered_json out = ordered_json::array();
  for (Gpu& gpu : measured_gpus(request.gpu)) {
    const Gpu now = gpu;
    for (const Kernel kernel : {Kernel::gemm, Kernel::attention, Kernel::scan}) {
      const bool scan = kernel == Kernel::scan;
      const fs::path csv = folder / (scan ? "linear_attention.csv" : fmt::format("{}.csv", name_of(kernel)));
      if (scan && !has_rows(csv, gpu.measured_as)) continue;
      const RooflineFit fitted = fit_roofline(csv, kernel, gpu, gpu.measured_as);
      gpu.kernel_launch = fitted.launch;  // attention uses the launch time of GEMM
      table.rows.push_back(row_of(fitted, kernel, now));
      out.push_back(json_of(fitted, kernel, now));
    }
  }
  return give_fits(
      request, "fits", out,
      "roofline, bf16; in parentheses: the catalog; errors: median / mean / 90th percentile\n" + table.text());
}

}  // namespace trainyard
