#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/fitted/kernel_fit.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/fits/fit.hpp"

namespace trainyard {
namespace {

using FitJson = nlohmann::ordered_json;

/// Returns true if the fit has a constant for the backward pass of attention.
bool fits_training(const KernelFit& fit) {
  const auto is_backward = [](const KernelConstant& c) { return std::string_view(c.key) == "backward"; };
  return std::ranges::any_of(fit.constants, is_backward);
}

bool is_undetermined(const KernelFit& fit, const KernelConstant& constant) {
  return std::ranges::find(fit.undetermined, constant.key) != fit.undetermined.end();
}

/// The part of a GPU's catalog entry that this fit gives, as YAML.
std::string entry_of(KernelFit fit) {
  const bool gemm = fit.kernel == Kernel::gemm;
  std::string text = fmt::format("# {}: held-out errors: median {}, 90th percentile {}\n", fit.gpu.name,
                                 percent(fit.held_out.median), percent(fit.held_out.p90));
  std::string map;  // the map of the last row; keys of constants in a map of their own have a dot
  const auto row = [&](std::string_view key, const std::string& value, const char* source) {
    const std::size_t dot = key.find('.');
    const std::string own_map(dot == std::string_view::npos ? "" : key.substr(0, dot));
    if (own_map != map && !own_map.empty()) text += fmt::format("  {}:\n", own_map);
    map = own_map;
    text += fmt::format("  {}{}: {{value: {}, source: {}}}\n", map.empty() ? "" : "  ",
                        map.empty() ? key : key.substr(dot + 1), value, source);
  };
  if (gemm) {
    text +=
        fmt::format("kernel_launch: {{value: {:.3g} us, source: tiles}}\ngemm:\n", fit.gpu.kernel_launch.value * 1e6);
    const double peak = fit.gpu.peak[static_cast<std::size_t>(Precision::bf16)].value;
    row("rated_peak", fmt::format("{:.5g} TFLOP/s", peak * 1e-12), "datasheet");
  } else {
    text += "attention:\n";
  }
  for (const KernelConstant& c : fit.constants) {
    if (&c.constant(fit.gpu) == &fit.gpu.kernel_launch.value) continue;
    if (fits_training(fit) && is_undetermined(fit, c)) continue;
    const double value = c.constant(fit.gpu) / c.unit;
    row(c.key, gemm ? fmt::format("{:.4g}{}", value, c.unit_name) : fmt::format("{:.3g}", value),
        gemm ? "tiles" : "attention_tiles");
    if (&c.constant(fit.gpu) == &fit.gpu.attention.forward && !fits_training(fit))
      row("backward", fmt::format("{:.3g}", fit.gpu.attention.backward), "attention_backward");
  }
  if (!gemm) return text;
  row("inner_step", fmt::format("{:.4g}", fit.gpu.gemm.inner_step), "tiles");
  row("tiles_of_256", fmt::format("{}", fit.gpu.gemm.tiles_of_256), "tiles");
  return text;
}

FitJson json_of(KernelFit fit) {
  const bool gemm = fit.kernel == Kernel::gemm;
  FitJson json{{"gpu", fit.gpu.name}, {"kernel", name_of(fit.kernel)}}, constants = FitJson::object();
  if (gemm) {
    json["kernel_launch_s"] = fit.gpu.kernel_launch.value;
    constants["rated_peak_FLOPps"] = fit.gpu.peak[static_cast<std::size_t>(Precision::bf16)].value;
  }
  for (const KernelConstant& c : fit.constants)
    if (&c.constant(fit.gpu) != &fit.gpu.kernel_launch.value)
      constants[std::string(c.key) + c.json_unit] = c.constant(fit.gpu);
  if (gemm) constants["inner_step"] = fit.gpu.gemm.inner_step;
  json["constants"] = constants;
  json["fitted"] = fit.fitted;
  json["judged"] = fit.judged;
  json["undetermined"] = fit.undetermined;
  json["held_out_error"] = errors_json(fit.held_out);
  json["in_sample_error"] = errors_json(fit.in_sample);
  return json;
}

/// Fits the kernels of one table and GPU. `left_out` gets a line for each row that is faster than the chip's peak; such
/// a row is a UserError unless `skip`.
KernelFit fit_table(const KernelTable& table, const Gpu& gpu, bool skip, std::string& left_out) {
  const std::string gpu_name = table.name_of_gpu(gpu);
  if (table.has_attention)
    return fit_kernel(Kernel::attention, read_kernels(table.csv, Kernel::attention, gpu, gpu_name), gpu);
  const MeasuredKernels products = read_products(table.csv, gpu, gpu_name);
  if (!products.impossible.empty() && !skip)
    throw UserError(products.impossible.front() +
                    fmt::format(" ({} such rows); --skip-impossible leaves them out", products.impossible.size()));
  for (const std::string& row : products.impossible) left_out += "# left out: " + row + "\n";
  return fit_kernel(Kernel::gemm, products, gpu);
}

std::vector<FieldRow> fit_kernel_json_rows() {
  std::vector<FieldRow> rows{{"fits", "list", "a fit for each GPU and kind of kernel", ""},
                             {"fits[].gpu", "text", "name of the GPU", ""},
                             {"fits[].kernel", "text", "kind of the kernels", ""},
                             {"fits[].kernel_launch_s", "s", "shortest time of a kernel", "of matrix products"},
                             {"fits[].constants", "{key: number}", "constants as the entry of the GPU names them", ""},
                             {"fits[].fitted", "number", "number of rows that were fitted", ""},
                             {"fits[].judged", "number", "number of rows that the fit did not use", ""},
                             {"fits[].undetermined", "[text]", "constants that the rows do not determine", ""}};
  add_error_rows(rows, "fits[].");
  return rows;
}
const RegisterJsonReference fit_kernels_json_reference{
    "fit kernels", "constants of matrix products by shape, and of attention", fit_kernel_json_rows};

}  // namespace

int fit_kernels(const FitRequest& request) {
  if (request.files.empty())
    throw UserError("trainyard fit kernels: which tables? Give gemm.csv, attention.csv or attention_training.csv");
  const std::vector<KernelTable> tables(request.files.begin(), request.files.end());
  const Catalog catalog;
  std::string text, others;
  FitJson fits = FitJson::array();
  for (const std::string& name : catalog.names("gpu")) {
    if (!request.gpu.empty() && name != fit_gpu(catalog, request.gpu).name) continue;
    const Gpu gpu = fit_gpu(catalog, name);
    const auto has_rows = [&](const KernelTable& table) { return !table.name_of_gpu(gpu).empty(); };
    if (std::ranges::none_of(tables, has_rows)) {
      others += fmt::format("# {}: not measured; {}\n", name,
                            gpu.gemm.is_given ? "takes the constants of its architecture, " + gpu.architecture
                                              : "matrix products take the same share of its peak for all shapes");
      continue;
    }
    for (const KernelTable& table : tables) {
      if (!has_rows(table)) continue;
      std::string left_out;
      const KernelFit fit = fit_table(table, gpu, request.skip_impossible, left_out);
      text += entry_of(fit) + left_out;
      for (const std::string& constant : fit.undetermined)
        text += fmt::format("# {}: {}: these rows do not determine it; the value is where the search ended\n", name,
                            constant);
      fits.push_back(json_of(fit));
    }
  }
  return give_fits(request, "fits", fits, text + others, request.out.empty() ? "-" : request.out);
}

}  // namespace trainyard
