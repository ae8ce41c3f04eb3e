#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "models/fitted/nccl_cost.hpp"
#include "models/fitted/nccl_launch.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"
#include "scenarios/src/studies/measured/measured_collectives.hpp"
#include "tools/verbs/fits/fit.hpp"

namespace trainyard {
namespace {

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
    if (speaks_rccl(system.cluster->node.gpu.architecture) != rccl) continue;
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

}  // namespace

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
