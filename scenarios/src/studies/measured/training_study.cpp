#include "scenarios/src/studies/measured/training_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/error.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

RunPrediction predict(const MeasuredFamily& family, std::size_t row) {
  RunPrediction run;
  run.id = family.ids[row];
  const Scenario scenario = read_scenario(family.scenario(row), run.id);
  run.stack = scenario.software.name;
  run.gpu = scenario.cluster.node.gpu.name;
  run.attention = scenario.software.attention_kernel;
  run.traits = traits_of(scenario);
  run.measured_step_time = scenario.measured_run.step_time.value;
  run.measured_peak_memory = scenario.measured_run.peak_memory.value;
  run.measured_reserved_memory = scenario.measured_run.reserved_memory.value;
  run.samples = static_cast<double>(scenario.global_batch_size) / scenario.ranks();
  SimulateOptions options;
  options.critical_path = false;
  const Result result = simulate_here(scenario, options);
  run.step_time = result.step_time;
  run.tokens = static_cast<double>(scenario.global_batch_size) *
               static_cast<double>(std::max<std::int64_t>(1, scenario.network.tokens_per_sample));
  run.peak_memory = result.memory.peak;
  run.reserved_memory = run.peak_memory * scenario.software.reserved_memory;
  run.fits = result.fits;
  return run;
}

/// A run that the simulator refuses is an answer too.
RunPrediction predict_or_refuse(const MeasuredFamily& family, std::size_t row) {
  RunPrediction run;
  try {
    run = predict(family, row);
  } catch (const UserError& e) {
    run.refused = e.what();
  }
  run.id = family.ids[row];
  run.scaled_from = family.scaled_from[row];
  return run;
}

}  // namespace

std::size_t FamilyPrediction::refused() const {
  return static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [](const RunPrediction& run) { return !run.refused.empty(); }));
}

std::optional<ErrorSet> FamilyPrediction::step_times() const {
  std::vector<MeasuredPoint> points;
  for (const RunPrediction& run : runs)
    if (run.refused.empty()) points.push_back({run.id, run.step_time, run.measured_step_time});
  if (points.empty()) return std::nullopt;
  return error_set("step time of " + name, std::move(points));
}

std::optional<ErrorSet> FamilyPrediction::peak_memories() const {
  std::vector<MeasuredPoint> points;
  for (const RunPrediction& run : runs)
    if (run.refused.empty() && run.measured_peak_memory > 0)
      points.push_back({run.id, run.peak_memory, run.measured_peak_memory});
  if (points.empty()) return std::nullopt;
  return error_set("peak memory of " + name, std::move(points));
}

std::optional<ErrorSet> FamilyPrediction::reserved_memories() const {
  std::vector<MeasuredPoint> points;
  for (const RunPrediction& run : runs)
    if (run.refused.empty() && run.measured_reserved_memory > 0)
      points.push_back({run.id, run.reserved_memory, run.measured_reserved_memory});
  if (points.empty()) return std::nullopt;
  return error_set("reserved memory of " + name, std::move(points));
}

std::optional<ErrorSet> FamilyPrediction::efficiencies() const {
  std::vector<MeasuredPoint> points;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunPrediction &run = runs[i], &from = runs[run.scaled_from];
    if (run.scaled_from == i || !run.refused.empty() || !from.refused.empty()) continue;
    const double samples = run.samples / from.samples;
    points.push_back({run.id, samples * from.step_time / run.step_time,
                      samples * from.measured_step_time / run.measured_step_time, true});
  }
  if (points.empty()) return std::nullopt;
  return error_set("scaling efficiency of " + name, std::move(points));
}

bool FamilyPrediction::within_memory_limits() const {
  for (const auto& memories : {peak_memories(), reserved_memories()}) {
    if (!memories) continue;
    if (limits.mean_memory > 0 && memories->mean_abs > limits.mean_memory) return false;
    if (limits.worst_memory > 0 && memories->worst_abs > limits.worst_memory) return false;
  }
  return true;
}

bool FamilyPrediction::within_limits() const {
  const auto times = step_times(), scaling = efficiencies();
  if (times && limits.mean_time > 0 && times->mean_abs > limits.mean_time) return false;
  if (times && limits.rank_correlation != 0 && times->rank_correlation < limits.rank_correlation) return false;
  if (scaling && limits.mean_efficiency > 0 && scaling->mean_abs > limits.mean_efficiency) return false;
  return within_memory_limits();
}

std::vector<MeasuredFamily> measured_families(const std::string& folder, const std::vector<std::string>& only) {
  std::vector<MeasuredFamily> families;
  std::vector<std::string> names;
  for (const fs::path& file : shipped_yaml_files("scenarios/measured/" + folder)) {
    families.emplace_back(file);
    names.push_back(families.back().name);
  }
  for (const std::string& name : only)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw UserError(fmt::format("--family: no measured family \"{}\"{}", name, hint(name, names)));
  if (!only.empty())
    std::erase_if(families,
                  [&](const MeasuredFamily& f) { return std::find(only.begin(), only.end(), f.name) == only.end(); });
  return families;
}

std::vector<MeasuredFamily> families_with_memory(const std::string& folder) {
  std::vector<MeasuredFamily> families = measured_families(folder, {});
  std::erase_if(families, [](const MeasuredFamily& family) { return !family.measures_memory(); });
  return families;
}

std::vector<ErrorSet> errors_by_stack(const std::vector<FamilyPrediction>& families) {
  std::map<std::string, std::vector<MeasuredPoint>> points;
  for (const FamilyPrediction& family : families)
    for (const RunPrediction& run : family.runs)
      if (run.refused.empty())
        points[run.stack + " on " + run.gpu].push_back({run.id, run.step_time, run.measured_step_time});
  std::vector<ErrorSet> sets;
  for (auto& [name, of_stack] : points) sets.push_back(error_set(name, std::move(of_stack)));
  return sets;
}

std::vector<FamilyPrediction> predict_training(const std::vector<MeasuredFamily>& families) {
  std::vector<FamilyPrediction> all;
  std::vector<RunOfFamily> rows;
  for (std::size_t f = 0; f < families.size(); ++f) {
    all.push_back({families[f].name, families[f].limits, {}});
    for (std::size_t row = 0; row < families[f].ids.size(); ++row) rows.push_back({f, row});
  }
  std::vector<RunPrediction> runs = predict_runs(families, rows, "measured runs");
  for (std::size_t i = 0; i < rows.size(); ++i) all[rows[i].family].runs.push_back(std::move(runs[i]));
  return all;
}

std::vector<RunPrediction> predict_runs(const std::vector<MeasuredFamily>& families,
                                        const std::vector<RunOfFamily>& rows, const std::string& what) {
  ProgressLine progress;
  std::size_t ended = 0;
  return all_in_parallel(
      rows.size(), processors(),
      [&](std::size_t i) {
        const FigureTrials trials(rows[i].trials);
        return predict_or_refuse(families[rows[i].family], rows[i].row);
      },
      [&](std::size_t, const RunPrediction&) {
        progress.show(fmt::format("{} of {} {}", ++ended, rows.size(), what));
      });
}

}  // namespace trainyard
