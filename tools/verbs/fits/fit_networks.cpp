#include <fmt/format.h>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/fitted/nccl_between.hpp"
#include "models/fitted/nccl_cost.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"
#include "scenarios/src/studies/measured/measured_collectives.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/fits/fit.hpp"

namespace trainyard {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Sets the errors of the network by leaving out each source in turn, if there are two sources or more.
void judge(NcclNetwork& network, const std::vector<NcclSweep>& sweeps) {
  std::vector<double> all, large;
  for (const LeftOutRow& row : left_out_errors(network, sweeps)) {
    all.push_back(std::abs(row.error));
    if (sweeps[row.sweep].rows[row.row].first >= kLargeCollective) large.push_back(std::abs(row.error));
  }
  if (all.empty()) return;
  network.median_error = quantile(all, 0.5);
  network.p90_error = quantile(all, 0.9);
  if (!large.empty()) network.large_error = quantile(large, 0.5);
}

struct FittedNetwork {
  NcclNetworkFit fit;
  std::size_t rows = 0;
  std::string entry;
};

FittedNetwork fitted_network(const std::string& name, const MeasuredSystems& tables, const Catalog& catalog) {
  const std::vector<NcclSweep> sweeps = network_sweeps(tables.systems, name);
  FittedNetwork fitted;
  fitted.fit = fit_nccl_network(name, sweeps);
  std::set<std::string> sources;
  for (const NcclSweep& sweep : sweeps) {
    fitted.rows += sweep.rows.size();
    sources.insert(sweep.source);
  }
  NcclNetwork& network = fitted.fit.network;
  const NcclNetwork known = read_nccl_network(catalog.resolve("nccl-network", Node::scalar_node(name)));
  network.own_adapters = known.own_adapters;
  network.without_gpudirect = known.without_gpudirect;
  judge(network, sweeps);
  fitted.entry = nccl_network_text(
      network, fmt::format("NCCL over {}, by `trainyard fit nccl --networks`: fit it again rather than edit.", name),
      fmt::format(
          "fit: `trainyard fit nccl --networks`, nccl_sweeps.csv of {}, {} rows of {}; hardly told by them: {}",
          counted_noun(sources.size(), "source"), fitted.rows, counted_noun(network.systems, "system"),
          fitted.fit.unidentified.empty() ? "nothing" : fmt::format("{}", fmt::join(fitted.fit.unidentified, ", "))),
      sources.size() > 1
          ? fmt::format("errors of NCCL between nodes: each of the {} sources left out of the fit in turn",
                        sources.size())
          : std::string("errors of NCCL between nodes: none, one source only"));
  return fitted;
}

/// The largest size at which the launch shows in the time.
constexpr Bytes kMostLaunched{64.0 * 1024};

/// The measured times of one operation on one system, with the kernel times that the model gives.
struct LaunchedSweep {
  std::string system, source;
  int launches = 1;  ///< number of launches of a call by one thread
  std::vector<std::pair<Seconds, Seconds>> kernel_and_measured;

  /// Median of |log(predicted / measured)|. The median ignores single slow sizes, such as RCCL's below 1 KiB.
  double error(Seconds launch) const {
    std::vector<double> errors;
    for (const auto& [kernel, measured] : kernel_and_measured)
      errors.push_back(std::abs(std::log(std::max(kernel, launch * launches) / measured)));
    return quantile(errors, 0.5);
  }
};

std::vector<LaunchedSweep> launched_sweeps(const std::vector<MeasuredSystem>& systems, bool rccl) {
  std::vector<LaunchedSweep> sweeps;
  for (const MeasuredSystem& system : systems) {
    if (!system.healthy() || system.nodes() > 1 || system.launch == NcclLaunch::ahead) continue;
    if (uses_rccl(system.cluster->node.gpu.architecture) != rccl) continue;
    std::map<NcclOperation, LaunchedSweep> by_operation;
    for (const CollectiveRow& row : system.rows) {
      if (row.size > kMostLaunched) continue;
      NcclCall call = system.call(row.operation, row.size);
      call.launch = {};
      const int launches = system.launch == NcclLaunch::by_thread ? call.fewest() : 1;
      LaunchedSweep& sweep =
          by_operation.try_emplace(row.operation, LaunchedSweep{system.name, system.source, launches, {}})
              .first->second;
      sweep.kernel_and_measured.emplace_back(nccl_cost(system.nccl->front().model(call), call).time, row.measured);
    }
    for (auto& [operation, sweep] : by_operation) sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

/// The launch time, in steps of 0.1 us, with the least error. The error is the sum over sources of the mean error of
/// their sweeps.
Seconds fitted_launch(const std::vector<LaunchedSweep>& sweeps) {
  constexpr int kMostTenths = 400;
  constexpr Seconds kTenth{1e-7};
  std::map<std::string, double> of_source;
  for (const LaunchedSweep& sweep : sweeps) ++of_source[sweep.source];
  Seconds best;
  double least = std::numeric_limits<double>::infinity();
  for (int tenths = 1; tenths <= kMostTenths; ++tenths) {
    double error = 0;
    for (const LaunchedSweep& sweep : sweeps) error += sweep.error(kTenth * tenths) / of_source[sweep.source];
    if (error >= least) continue;
    least = error;
    best = kTenth * tenths;
  }
  return best;
}

std::vector<FieldRow> fit_network_json_rows() {
  return {{"networks", "list", "a fit for each kind of network", ""},
          {"networks[].network", "text", "name of the entry", ""},
          {"networks[].rows", "number", "number of fitted rows", ""},
          {"networks[].unidentified", "[text]", "constants that the rows hardly determine", ""},
          {"networks[].entry", "text", "the catalog entry, as YAML", ""}};
}
const RegisterJsonReference fit_networks_json_reference{"fit nccl --networks", "NCCL over kinds of networks",
                                                        fit_network_json_rows};

std::vector<FieldRow> fit_launch_json_rows() {
  return {{"launches", "list", "a fit for each library", ""},
          {"launches[].library", "text", "name of the library: NCCL or RCCL", ""},
          {"launches[].sweeps", "number", "number of sweeps that were fitted", ""},
          {"launches[].launch_s", "s", "time to launch a call on one GPU", ""}};
}
const RegisterJsonReference fit_launches_json_reference{
    "fit nccl --launch", "time in which a host thread launches a call on a GPU", fit_launch_json_rows};

}  // namespace

MeasuredSystems measured_tables(const FitRequest& request) {
  if (request.files.empty()) return measured_systems();
  if (request.files.size() != 2)
    throw UserError(
        "trainyard fit nccl --networks, --launch: two tables expected, of systems and of their sweeps; without tables, "
        "those of the installation are read");
  return measured_systems(request.files[0], request.files[1]);
}

int fit_nccl_networks(const FitRequest& request) {
  const MeasuredSystems tables = measured_tables(request);
  std::set<std::string> names;
  for (const MeasuredSystem& system : tables.systems)
    if (system.nodes() > 1 && system.healthy()) names.insert(system.network());
  std::string text;
  for (const std::string& row : tables.impossible) text += fmt::format("left out {}\n", row);
  OrderedJson out = OrderedJson::array();
  for (const std::string& name : names) {
    const FittedNetwork fitted = fitted_network(name, tables, Catalog());
    const NcclNetwork& network = fitted.fit.network;
    text += fmt::format("{}: {} systems, {} rows", name, network.systems, fitted.rows);
    if (network.median_error > 0)
      text += fmt::format("; sources left out in turn: median {:.1f} %, 90th percentile {:.1f} %, from 64 MiB {:.1f} %",
                          network.median_error * 100, network.p90_error * 100, network.large_error * 100);
    text += "\n";
    if (!fitted.fit.unidentified.empty())
      text += fmt::format("  hardly determined by the rows: {}\n", fmt::join(fitted.fit.unidentified, ", "));
    if (!request.out.empty() && request.out != "-")
      write_atomically(std::filesystem::path(request.out) / (name + ".yaml"), fitted.entry);
    else if (request.out == "-")
      write_atomically("-", fitted.entry);
    out.push_back(
        {{"network", name}, {"rows", fitted.rows}, {"unidentified", fitted.fit.unidentified}, {"entry", fitted.entry}});
  }
  return give_fits(request, "networks", out, request.out == "-" ? "" : text);
}

int fit_nccl_launch(const FitRequest& request) {
  const MeasuredSystems tables = measured_tables(request);
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  std::string text;
  for (const bool rccl : {false, true}) {
    const std::vector<LaunchedSweep> sweeps = launched_sweeps(tables.systems, rccl);
    if (sweeps.empty()) continue;
    const char* library = rccl ? "RCCL" : "NCCL";
    const Seconds launch = fitted_launch(sweeps);
    text += fmt::format("{}: a thread takes {:.1f} us to launch a call on a GPU, by {} sweeps\n", library,
                        launch.value * 1e6, sweeps.size());
    for (const LaunchedSweep& sweep : sweeps)
      text += fmt::format("  {}: {} a call, error {:.0f} %\n", sweep.system, sweep.launches, 100 * sweep.error(launch));
    out.push_back({{"library", library}, {"sweeps", sweeps.size()}, {"launch_s", launch.value}});
  }
  return give_fits(request, "launches", out, text);
}

}  // namespace trainyard
