#include "tools/verbs/validate_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/running/simulate.hpp"
#include "scenarios/studies/error_set.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/child.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// What the error may be: the mean of a family's steps, its order, and peak memory.
constexpr double kMeanTimeLimit = 0.15, kLeastRankCorrelation = 0.95, kMeanMemoryLimit = 0.03;

struct MeasuredScenario {
  std::string id;
  Scenario scenario;
  double step_time = 0, peak_memory = 0;  // predicted
};

/// Every scenario with a measured step, by name.
std::vector<MeasuredScenario> measured_scenarios() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(shipped_file("scenarios/measured")))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<MeasuredScenario> all;
  for (const fs::path& file : files) {
    all.push_back({file.stem().string(), read_scenario(file)});
    if (!all.back().scenario.measured_run.given())
      throw UserError(file.string() + ": a scenario of a measured run needs a key \"measured\"");
  }
  return all;
}

void predict(std::vector<MeasuredScenario>& all) {
  const std::vector<std::string> texts = in_children(all.size(), processors(), [&](std::size_t i) {
    SimulateOptions options;
    options.critical_path = false;
    const Result result = simulate_here(all[i].scenario, options);
    return json_text(Json{result.step_time, result.memory.peak});
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Json result = parse_json(texts[i]);
    all[i].step_time = result[0].get<double>();
    all[i].peak_memory = result[1].get<double>();
  }
}

struct TrainingSet {
  std::string name;
  bool memory = false;
  std::vector<MeasuredPoint> points;
};

std::vector<TrainingSet> sets_of(const std::vector<MeasuredScenario>& all) {
  std::map<std::string, TrainingSet> times, memories;
  for (const MeasuredScenario& one : all) {
    const MeasuredRun& run = one.scenario.measured_run;
    TrainingSet& time = times[run.family];
    time.name = "step time of " + run.family;
    time.points.push_back({one.id, one.step_time, run.step_time.value});
    if (run.peak_memory.value == 0) continue;
    TrainingSet& memory = memories[run.family];
    memory.name = "peak memory of " + run.family;
    memory.memory = true;
    memory.points.push_back({one.id, one.peak_memory, run.peak_memory.value});
  }
  std::vector<TrainingSet> sets;
  for (auto& [family, set] : times) sets.push_back(std::move(set));
  for (auto& [family, set] : memories) sets.push_back(std::move(set));
  return sets;
}

bool within(const TrainingSet& set, const ErrorSet& errors) {
  if (set.memory) return errors.mean_abs <= kMeanMemoryLimit;
  return errors.mean_abs <= kMeanTimeLimit && errors.rank_correlation >= kLeastRankCorrelation;
}

}  // namespace

int validate_training(const std::string& json_file, bool points) {
  std::vector<MeasuredScenario> all = measured_scenarios();
  predict(all);
  TextTable table{{"set", "n", "mean", "median", "worst", "signed mean", "rank", "limit"},
                  {false, true, true, true, true, true, true, false},
                  {}};
  TextTable rows{{"run", "measured", "predicted", "error"}, {false, true, true, true}, {}};
  bool holds = true;
  Json out = Json::array();
  for (const TrainingSet& set : sets_of(all)) {
    const ErrorSet errors = error_set(set.name, set.points);
    const bool good = within(set, errors);
    holds &= good;
    const std::string limit = set.memory
                                  ? fmt::format("mean {:.0f} %", kMeanMemoryLimit * 100)
                                  : fmt::format("mean {:.0f} %, rank {}", kMeanTimeLimit * 100, kLeastRankCorrelation);
    table.rows.push_back({set.name, fmt::format("{}", errors.points.size()), percent(errors.mean_abs),
                          percent(errors.median_abs), percent(errors.worst_abs), signed_percent(errors.signed_mean),
                          fmt::format("{:.3f}", errors.rank_correlation), limit + (good ? ": holds" : ": FAILS")});
    out.emplace_back(to_json(errors, points, {{}, {}, good}));
    for (const MeasuredPoint& p : set.points)
      rows.rows.push_back({p.id, set.memory ? show(Bytes{p.measured}) : show(Seconds{p.measured}),
                           set.memory ? show(Bytes{p.predicted}) : show(Seconds{p.predicted}),
                           signed_percent(p.predicted / p.measured - 1)});
  }
  if (json_file != "-") {
    fmt::print("measured training runs (scenarios/measured) against the simulator\n{}\n{}", rows.text(), table.text());
    fmt::print(
        "fitted to these runs, by closed-form models: the clocks of long runs and, from peak memory, three buffers of "
        "the library\n"
        "(catalog, stack megatron-core: dummy, schedule, torch_workspace); nothing else\n");
  }
  if (!json_file.empty()) write_atomically(json_file, json_text(Json{{"sets", out}}, 2) + "\n");
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
