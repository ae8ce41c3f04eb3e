#include "scenarios/src/studies/measured/published_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/error.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

PublishedRun predict_one(const fs::path& file) {
  PublishedRun run;
  run.id = file.stem().string();
  const Scenario scenario = read_scenario(file, {});
  const MeasuredRun& paper = scenario.measured_run;
  run.devices = scenario.ranks();
  run.counted = paper.counted;
  run.assumed = paper.assumed;
  run.source = paper.source;
  SimulateOptions options;
  options.critical_path = false;
  const Result result = simulate_here(scenario, options);
  const double faster = paper.step_time.value / result.step_time;
  const double peak =
      scenario.cluster.node.gpu.peak[static_cast<std::size_t>(scenario.precision)].value;  // all are of one type
  const bool flops = paper.rate.value > 0;
  run.published = flops ? paper.rate.value * 1e-12 : paper.tokens_per_s;
  run.predicted = run.published * faster;
  run.mfu = result.mfu;
  run.mfu_with_attention = result.mfu_with_attention;
  run.published_mfu = flops ? paper.rate.value / peak : result.mfu / faster;
  run.predicted_mfu = run.published_mfu * faster;
  run.fits = result.fits;
  return run;
}

PublishedRun predict_or_refuse(const fs::path& file) {
  try {
    return predict_one(file);
  } catch (const UserError& e) {
    PublishedRun run;
    run.id = file.stem().string();
    run.refused = e.what();
    return run;
  }
}

}  // namespace

std::vector<PublishedRun> predict_published() {
  const std::vector<fs::path> files = shipped_yaml_files("scenarios/published");
  ProgressLine progress;
  std::size_t ended = 0;
  return all_in_parallel(
      files.size(), processors(), [&](std::size_t i) { return predict_or_refuse(files[i]); },
      [&](std::size_t, const PublishedRun&) {
        progress.show(fmt::format("{} of {} published runs", ++ended, files.size()));
      });
}

std::optional<PublishedErrors> errors_of(const std::vector<PublishedRun>& runs) {
  PublishedErrors errors;
  int predicted = 0;
  for (const PublishedRun& run : runs) {
    if (!run.refused.empty()) continue;
    ++predicted;
    errors.mean += std::abs(run.points());
    errors.worst = std::max(errors.worst, std::abs(run.points()));
  }
  if (predicted == 0) return std::nullopt;
  errors.mean /= predicted;
  return errors;
}

}  // namespace trainyard
