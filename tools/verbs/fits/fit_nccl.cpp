#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "models/fitted/nccl_fit.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/measured_collectives.hpp"
#include "tools/reports/nccl_plot.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/fits/fit.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// A device name such as "NVIDIA A100-SXM4-80GB" in the spelling of the catalog's names.
std::string plain_device(std::string name) {
  for (const char* maker : {"NVIDIA ", "GeForce ", "Tesla "})
    if (name.starts_with(maker)) name.erase(0, std::string(maker).size());
  if (name.find("H100") != std::string::npos && name.find("HBM3") != std::string::npos) return "h100-sxm5-80gb";
  for (char& c : name) c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

/// The GPU of the catalog that the log names, by its name in the tables or the catalog, or by the beginning of the name
/// if only one GPU fits. Throws UserError otherwise.
Gpu measured_gpu(const Catalog& catalog, const NcclLog& log) {
  std::vector<std::string> begins;
  const std::string device = plain_device(log.gpu);
  for (const std::string& name : catalog.names("gpu")) {
    Gpu gpu = fit_gpu(catalog, name);
    if (!log.gpu.empty() && (gpu.measured_as == log.gpu || same_name(name, device))) return gpu;
    if (!log.gpu.empty() && name.starts_with(device)) begins.push_back(name);
  }
  if (begins.size() == 1) return fit_gpu(catalog, begins.front());
  throw UserError(fmt::format("{}: which GPU of the catalog is {}? Give --gpu NAME (trainyard list gpus)", log.file,
                              log.gpu.empty() ? "this" : "\"" + log.gpu + "\""));
}

/// The name of the entry: the table's name of the GPU, or the catalog's if there is none.
std::string entry_name(const NcclLog& log, const Gpu& gpu) {
  if (log.gpu != gpu.measured_as || log.gpu.empty()) return gpu.name;
  std::string name = log.gpu;
  std::ranges::replace(name, '_', '-');
  return name;
}

/// The rows of one system in a table of sweeps. The table of systems is in the same folder.
NcclLog log_of_system(const FitRequest& request) {
  const std::filesystem::path sweeps = request.files.front();
  const MeasuredSystems tables = measured_systems(sweeps.parent_path() / "nccl_systems.csv", sweeps);
  std::vector<std::string> names;
  for (const MeasuredSystem& system : tables.systems) {
    names.push_back(system.name);
    if (system.name != request.system) continue;
    NcclLog log{sweeps.filename().string(), "", system.version, fmt::format("{}: {}", system.name, system.source), {}};
    for (const CollectiveRow& row : system.rows)
      log.rows.push_back({row.operation, system.gpus, system.nodes(), row.size, row.measured});
    if (system.cluster && request.gpu.empty()) log.gpu = system.cluster->node.gpu.name;
    return log;
  }
  throw UserError(
      fmt::format("trainyard fit nccl: unknown system \"{}\"{}", request.system, hint(request.system, names)));
}

std::vector<NcclLog> read_all(const FitRequest& request) {
  if (request.files.empty())
    throw UserError("trainyard fit nccl: which file? Give nccl.csv or a log of nccl-tests (trainyard fit --help)");
  if (request.gpus < 0 || request.gpus == 1)
    throw UserError(fmt::format("trainyard fit nccl: --gpus {}: expected 2 or more", request.gpus));
  if (!request.system.empty()) return {log_of_system(request)};
  std::vector<NcclLog> logs;
  for (const std::string& file : request.files)
    for (NcclLog& log : read_nccl_logs(file, {request.gpus, request.operation})) logs.push_back(std::move(log));
  return logs;
}

/// One fit for each GPU, in the order of the files. --gpu selects one GPU of a table with several.
std::vector<NcclFit> fit_all(const FitRequest& request) {
  const Catalog catalog;
  const std::vector<NcclLog> logs = read_all(request);
  const bool several = std::ranges::any_of(logs, [&](const NcclLog& l) { return l.gpu != logs[0].gpu; });
  std::vector<std::pair<Gpu, std::vector<NcclLog>>> by_gpu;
  for (const NcclLog& log : logs) {
    Gpu gpu = request.gpu.empty() || several ? measured_gpu(catalog, log) : fit_gpu(catalog, request.gpu);
    if (!request.gpu.empty() && !same_name(gpu.name, fit_gpu(catalog, request.gpu).name)) continue;
    const auto found = std::ranges::find_if(by_gpu, [&](const auto& g) { return g.first.name == gpu.name; });
    if (found == by_gpu.end())
      by_gpu.push_back({std::move(gpu), {log}});
    else
      found->second.push_back(log);
  }
  if (by_gpu.empty())
    throw UserError(
        fmt::format("trainyard fit nccl: no rows of gpu {} in {}", request.gpu, fmt::join(request.files, ", ")));
  std::vector<NcclFit> fits;
  for (const auto& [gpu, rows] : by_gpu) fits.push_back(fit_nccl(rows, gpu, entry_name(rows.front(), gpu)));
  return fits;
}

std::string errors_text(const NcclErrors& e) {
  if (e.rows == 0) return "none";
  return fmt::format("{} rows: median {:.1f} %, 90th percentile {:.1f} %", e.rows, e.median * 100, e.p90 * 100);
}

/// Counts the protocols that the fit tells apart: those of the operation with the most measured sizes.
std::size_t told_apart(const NcclModel& model) {
  std::size_t most = 0;
  for (const auto& [operation, curves] : model.curves)
    for (const NcclCurve& curve : curves) {
      std::set<std::pair<double, double>> protocols;
      for (const NcclProtocol& p : {curve.ll, curve.ll128, curve.simple})
        protocols.emplace(p.startup.value, p.rate.value);
      most = std::max(most, protocols.size());
    }
  return most;
}

/// A plot of each operation at its largest number of GPUs, and the errors.
std::string fit_text(const NcclFit& fit) {
  std::map<NcclOperation, int> most;
  for (const NcclPoint& p : fit.points) most[p.row.operation] = std::max(most[p.row.operation], p.row.gpus);
  const std::size_t protocols = told_apart(fit.model);
  std::string text =
      fmt::format("NCCL {} on {}: {} fitted{}\n", fit.model.version, fit.model.gpu, counted_noun(protocols, "protocol"),
                  protocols < 3 ? ", as there are too few sizes to tell three apart" : "");
  for (const auto& [operation, gpus] : most) text += nccl_text_plot(fit.points, operation, gpus);
  text += fmt::format("error on the fitted sizes (even log2)  {}\n", errors_text(fit.fitted));
  text += fmt::format("error on the held-out sizes (odd log2) {}\n", errors_text(fit.judged));
  if (fit.between_nodes > 0) text += fmt::format("{} rows between nodes were left out\n", fit.between_nodes);
  return text;
}

ordered_json errors_of(const NcclErrors& e) {
  return {{"n", e.rows}, {"median_abs_error", e.median}, {"p90_abs_error", e.p90}};
}

ordered_json fit_json(const NcclFit& fit) {
  ordered_json points = ordered_json::array();
  for (const NcclPoint& p : fit.points)
    points.push_back({{"operation", name_of(p.row.operation)},
                      {"gpus", p.row.gpus},
                      {"size_bytes", p.row.size.value},
                      {"measured_s", p.row.time.value},
                      {"predicted_s", p.predicted.value},
                      {"held_out", p.judged}});
  return {{"name", fit.model.name},
          {"gpu", fit.model.gpu},
          {"nccl_version", fit.model.version},
          {"held_out_error", errors_of(fit.judged)},
          {"in_sample_error", errors_of(fit.fitted)},
          {"entry", fit.entry},
          {"points", points}};
}

std::vector<FieldRow> fit_nccl_json_rows() {
  return {{"fits", "list", "a fit for each kind of GPU", ""},
          {"fits[].name", "text", "name of the entry", ""},
          {"fits[].gpu", "text", "name of the GPU", ""},
          {"fits[].nccl_version", "text", "version of NCCL that was measured", ""},
          {"fits[].held_out_error", "object", "errors on rows that the fit did not use", ""},
          {"fits[].held_out_error.n", "number", "number of rows", ""},
          {"fits[].held_out_error.median_abs_error", "share", "median of |predicted / measured - 1|", ""},
          {"fits[].held_out_error.p90_abs_error", "share", "90th percentile of |predicted / measured - 1|", ""},
          {"fits[].in_sample_error", "object", "errors on fitted rows", ""},
          {"fits[].in_sample_error.n", "number", "number of rows", ""},
          {"fits[].in_sample_error.median_abs_error", "share", "median of |predicted / measured - 1|", ""},
          {"fits[].in_sample_error.p90_abs_error", "share", "90th percentile of |predicted / measured - 1|", ""},
          {"fits[].entry", "text", "the catalog entry, as YAML", ""},
          {"fits[].points", "list", "measured rows", ""},
          {"fits[].points[].operation", "text", "name of the collective", ""},
          {"fits[].points[].gpus", "number", "number of GPUs", ""},
          {"fits[].points[].size_bytes", "bytes", "size of the data, as nccl-tests counts it", ""},
          {"fits[].points[].measured_s", "s", "measured time of the collective", ""},
          {"fits[].points[].predicted_s", "s", "time by the fit", ""},
          {"fits[].points[].held_out", "true|false", "the fit did not use the row", ""}};
}
const RegisterJsonReference fit_nccl_json_reference{"fit nccl", "NCCL's protocols on a kind of GPU",
                                                    fit_nccl_json_rows};

}  // namespace

int fit_nccl_logs(const FitRequest& request) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(request.out, ignored);
  const std::vector<NcclFit> fits = fit_all(request);
  const bool one_file = !request.svg.empty() || (!request.out.empty() && !folder);
  if (fits.size() > 1 && one_file)
    throw UserError(
        "trainyard fit nccl: fits of several GPUs in one file: give --gpu NAME, or for --out a folder that exists");
  const bool quiet = request.out == "-" || request.svg == "-" || request.json == "-";
  ordered_json out = ordered_json::array();
  for (const NcclFit& fit : fits) {
    if (!quiet) write_atomically("-", fit_text(fit));
    if (folder)
      write_atomically(std::filesystem::path(request.out) / (fit.model.name + ".yaml"), fit.entry);
    else if (!request.out.empty())
      write_atomically(request.out, fit.entry);
    else if (!quiet)
      write_atomically("-", fmt::format("\ncatalog entry nccls/{}.yaml:\n{}\n", fit.model.name, fit.entry));
    if (!request.svg.empty()) write_atomically(request.svg, nccl_svg_plot(fit));
    out.push_back(fit_json(fit));
  }
  return give_fits(request, "fits", out, "");
}

ordered_json errors_json(const FitErrors& e) { return {{"median", e.median}, {"mean", e.mean}, {"p90", e.p90}}; }

void add_error_rows(std::vector<FieldRow>& rows, const std::string& prefix) {
  for (const auto& [key, words] : {std::pair{"held_out_error", "errors on the rows that the fit did not use"},
                                   std::pair{"in_sample_error", "errors on the fitted rows"}}) {
    const std::string errors = prefix + key;
    rows.push_back({errors, "object", words, ""});
    rows.push_back({errors + ".median", "share", "median of |predicted / measured - 1|", ""});
    rows.push_back({errors + ".mean", "share", "mean of |predicted / measured - 1|", ""});
    rows.push_back({errors + ".p90", "share", "90th percentile of |predicted / measured - 1|", ""});
  }
}

int give_fits(const FitRequest& request, const char* key, const ordered_json& fits, const std::string& text,
              const std::string& out) {
  if (request.json != "-" && !text.empty()) write_atomically(out, text);
  write_json(request.json, ordered_json{{key, fits}});
  return kGood;
}

Gpu fit_gpu(const Catalog& catalog, const std::string& name) {
  return read_gpu(catalog.resolve("gpu", Node::scalar_node(name, Place::named("trainyard fit: --gpu"))));
}

}  // namespace trainyard
