#include "scenarios/src/studies/measured/measured_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/reading/document_text.hpp"
#include "models/reading/formula.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/failures/training_phases.hpp"
#include "sim/error.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

/// Reads the predicted and measured values of the family's figures for a row.
void read_figures(const MeasuredFamily& family, std::size_t row, const Result& result, RunPrediction& run) {
  if (family.figures.empty()) return;
  const nlohmann::json answer = to_json(result);
  const auto value = [&](std::string_view name) {
    std::string path = "/" + std::string(name);
    std::ranges::replace(path, '.', '/');
    const nlohmann::json::json_pointer pointer(path);
    if (!answer.contains(pointer) || !answer[pointer].is_number())
      throw UserError(fmt::format("figures: the answer has no number \"{}\"", name));
    return answer[pointer].get<double>();
  };
  for (const MeasuredFigure& figure : family.figures)
    run.figures.emplace_back(evaluate(figure.predicted, value), family.measured(row, figure).value_or(0));
}

RunPrediction predict(const MeasuredFamily& family, std::size_t row, bool critical_path) {
  RunPrediction run;
  const Scenario scenario = read_scenario(family.scenario(row), family.ids[row]);
  run.attention = scenario.software.attention_kernel;
  run.measured = scenario.measured_run;
  run.devices = scenario.ranks();
  // All nodes of a measured run have one type.
  run.peak = scenario.cluster.node.gpu.peak[static_cast<std::size_t>(scenario.precision)];
  run.samples = static_cast<double>(scenario.global_batch_size) / run.devices;
  Result result = simulate_here(scenario, {.critical_path = critical_path});
  if (scenario.training.ends.is_given()) book_phases(scenario, result);
  run.step_time = result.step_time.value;
  run.profile = profile_of(scenario, result);
  if (critical_path) run.doubt = step_doubt(scenario, result);
  run.tokens = static_cast<double>(scenario.global_batch_size) *
               static_cast<double>(std::max<std::int64_t>(1, scenario.network.tokens_per_sample));
  run.memory = result.memory;
  run.memory_interval = result.memory_interval;
  run.mfu = result.mfu;
  run.mfu_with_attention = result.mfu_with_attention;
  run.fits = result.fits;
  run.fits_in_words = result.fits_in_words();
  run.risk = result.risk;
  read_figures(family, row, result, run);
  return run;
}

void set_row(const MeasuredFamily& family, std::size_t row, RunPrediction& run) {
  run.id = family.ids[row];
  run.scaled_from = family.scaled_from[row];
  run.calibrates = family.calibrates(row);
}

/// Predicts a row. If the simulator refuses the run, the prediction has the reason.
RunPrediction predict_or_refuse(const MeasuredFamily& family, std::size_t row, bool critical_path) {
  RunPrediction run;
  try {
    run = predict(family, row, critical_path);
  } catch (const UserError& e) {
    run.refused = e.what();
  }
  set_row(family, row, run);
  return run;
}

/// Returns all that decides the prediction of a row: its scenario without what was measured, and the trial figures.
std::string key_of_prediction(const MeasuredFamily& family, const RunOfFamily& row) {
  std::string key = fmt::format("{}\n", row.family);
  const std::map<std::string, std::string> fields = flat_fields(family.scenario(row.row));
  for (const auto& [path, value] : fields)
    if (!path.starts_with("measured")) key += fmt::format("{}: {}\n", path, value);
  for (const FigureTrial& trial : row.trials)
    key += fmt::format("{} {} {}: {}\n", trial.kind, trial.entry, trial.key, trial.value);
  return key;
}

/// Returns for each row the first row that has the same prediction. Figures of a row are its own, so rows of a family
/// with figures have none in common.
std::vector<std::size_t> first_rows_alike(const std::vector<MeasuredFamily>& families,
                                          const std::vector<RunOfFamily>& rows) {
  std::map<std::string, std::size_t> rows_by_key;
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MeasuredFamily& family = families[rows[i].family];
    const bool alone = !family.figures.empty();
    first.push_back(alone ? i : rows_by_key.emplace(key_of_prediction(family, rows[i]), i).first->second);
  }
  return first;
}

}  // namespace

const std::vector<MemoryQuantity>& memory_quantities() {
  static const std::vector<MemoryQuantity> all{
      {"peak memory", false, &MeasuredRun::peak_memory, &Result::Memory::peak},
      {"reserved memory", true, &MeasuredRun::reserved_memory, &Result::Memory::reserved},
      {"device memory", true, &MeasuredRun::device_memory, &Result::Memory::device}};
  return all;
}

std::pair<double, double> RunPrediction::mfus() const {
  const double speedup = measured.step_time.value / step_time;
  const double published = measured.rate.value > 0 ? measured.rate / peak : mfu / speedup;
  return {published * speedup, published};
}

std::size_t FamilyPrediction::refused_runs() const {
  return static_cast<std::size_t>(std::ranges::count_if(runs, [](const auto& run) { return !run.refused.empty(); }));
}

/// `values`: returns the predicted and the measured value of a run; measured 0: not measured.
template <class Values>
std::optional<ErrorSet> FamilyPrediction::errors(const std::string& what, bool shares, const Values& values) const {
  std::vector<MeasuredPoint> points;
  for (const RunPrediction& run : runs) {
    if (!run.refused.empty()) continue;
    const std::pair<double, double> value = values(run);
    if (value.second > 0) points.push_back({run.id, value.first, value.second, shares});
  }
  if (points.empty()) return std::nullopt;
  return error_set(what + " of " + name, std::move(points));
}

std::optional<ErrorSet> FamilyPrediction::step_times() const {
  return errors("step time", false, [](const RunPrediction& run) {
    return std::pair{run.step_time, run.measured.step_time.value};
  });
}

std::optional<ErrorSet> FamilyPrediction::memories(const MemoryQuantity& quantity) const {
  return errors(quantity.name, false, [&](const RunPrediction& run) {
    return std::pair{(run.memory.*quantity.predicted).value, (run.measured.*quantity.measured).value};
  });
}

std::optional<ErrorSet> FamilyPrediction::efficiencies() const {
  return errors("scaling efficiency", true, [&](const RunPrediction& run) {
    const RunPrediction& from = runs[run.scaled_from];
    if (&from == &run || !from.refused.empty()) return std::pair{0.0, 0.0};
    const double samples = run.samples / from.samples;
    return std::pair{samples * from.step_time / run.step_time,
                     samples * from.measured.step_time.value / run.measured.step_time.value};
  });
}

std::optional<ErrorSet> FamilyPrediction::mfus() const {
  return errors("MFU", true, [](const RunPrediction& run) { return run.mfus(); });
}

std::optional<ErrorSet> FamilyPrediction::figure(std::size_t number) const {
  return errors(figures[number].name, figures[number].points, [&](const RunPrediction& run) {
    return run.calibrates ? std::pair{0.0, 0.0} : run.figures[number];
  });
}

std::string FamilyPrediction::filled_note() const {
  constexpr std::string_view kRatio = "{ratio}";
  std::string text = note;
  const std::size_t found = text.find(kRatio);
  if (found == std::string::npos) return text;
  double sum = 0, count = 0;
  for (const RunPrediction& run : runs)
    if (run.calibrates && run.refused.empty()) sum += run.figures.front().first / run.figures.front().second, ++count;
  return text.replace(found, kRatio.size(),
                      count > 0 ? fmt::format("{:.4f}", sum / count) : "unknown (all runs are refused)");
}

bool FamilyPrediction::within_memory_limits() const {
  return std::ranges::all_of(memory_quantities(), [&](const MemoryQuantity& quantity) {
    const auto errors = memories(quantity);
    return !errors || holds(limits.memory, *errors);
  });
}

bool FamilyPrediction::within_limits() const {
  const auto times = step_times(), scaling = efficiencies();
  if (times && !holds(limits.time, *times)) return false;
  if (scaling && !holds(limits.efficiency, *scaling)) return false;
  for (std::size_t f = 0; f < figures.size(); ++f)
    if (const auto errors = figure(f); errors && !figures[f].limits.aim && !holds(figures[f].limits, *errors))
      return false;
  return within_memory_limits();
}

std::vector<MeasuredFamily> measured_families(const std::vector<std::string>& places,
                                              const std::vector<std::string>& names) {
  std::vector<MeasuredFamily> families;
  std::vector<std::string> known_names;
  for (const std::string& place : places)
    for (const fs::path& file :
         place.ends_with(".yaml") ? std::vector<fs::path>{place} : shipped_yaml_files("scenarios/measured/" + place)) {
      families.emplace_back(file);
      known_names.push_back(families.back().name);
    }
  for (const std::string& name : names)
    if (std::ranges::find(known_names, name) == known_names.end())
      throw UserError(fmt::format("--family: no measured family \"{}\"{}", name, hint(name, known_names)));
  if (!names.empty())
    std::erase_if(families, [&](const MeasuredFamily& f) { return std::ranges::find(names, f.name) == names.end(); });
  return families;
}

std::vector<ErrorSet> errors_by_stack(const std::vector<FamilyPrediction>& families) {
  std::map<std::string, std::vector<MeasuredPoint>> points;
  for (const FamilyPrediction& family : families)
    for (const RunPrediction& run : family.runs)
      if (run.refused.empty() && run.measured.step_time.value > 0)
        points[run.trait(StepTrait::stack) + " on " + run.trait(StepTrait::gpu)].push_back(
            {run.id, run.step_time, run.measured.step_time.value});
  std::vector<ErrorSet> sets;
  for (auto& [name, stack_points] : points) sets.push_back(error_set(name, std::move(stack_points)));
  return sets;
}

namespace {

/// Predicts rows of families; equal rows once. No value: a signal came before the run was predicted.
std::vector<std::optional<RunPrediction>> predict_rows(const std::vector<MeasuredFamily>& families,
                                                       const std::vector<RunOfFamily>& rows, const std::string& what) {
  const std::vector<std::size_t> first = first_rows_alike(families, rows);
  std::vector<std::size_t> distinct;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (first[i] == i) distinct.push_back(i);
  ProgressLine progress;
  std::size_t finished_runs = 0;
  const std::vector<std::optional<RunPrediction>> predicted = in_parallel(
      distinct.size(), processors(),
      [&](std::size_t k) {
        const RunOfFamily& row = rows[distinct[k]];
        const FigureTrials trials(row.trials);
        return predict_or_refuse(families[row.family], row.row, row.critical_path);
      },
      [&](std::size_t, const RunPrediction&) {
        progress.show(fmt::format("{} of {} different {}", ++finished_runs, distinct.size(), what));
      });
  std::vector<std::optional<RunPrediction>> runs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto place = std::ranges::lower_bound(distinct, first[i]) - distinct.begin();
    runs.push_back(predicted[static_cast<std::size_t>(place)]);
    if (first[i] == i || !runs.back()) continue;
    const MeasuredFamily& family = families[rows[i].family];
    set_row(family, rows[i].row, *runs.back());
    if (runs.back()->refused.empty())
      runs.back()->measured = read_scenario(family.scenario(rows[i].row), family.ids[rows[i].row]).measured_run;
  }
  return runs;
}

}  // namespace

std::vector<FamilyPrediction> predict_families(const std::vector<MeasuredFamily>& families, std::string* unfinished,
                                               bool intervals) {
  std::vector<FamilyPrediction> all;
  std::vector<RunOfFamily> rows;
  for (std::size_t f = 0; f < families.size(); ++f) {
    all.push_back({families[f], {}});
    for (std::size_t row = 0; row < families[f].ids.size(); ++row) rows.push_back({f, row, {}, intervals});
  }
  std::vector<std::optional<RunPrediction>> runs = predict_rows(families, rows, "measured runs");
  std::vector<bool> is_done(families.size(), true);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (runs[i])
      all[rows[i].family].runs.push_back(*std::move(runs[i]));
    else
      is_done[rows[i].family] = false;
  const std::ptrdiff_t done = std::ranges::count(is_done, true);
  if (done == std::ssize(is_done)) return all;
  if (!unfinished || done == 0) throw Interruption();
  *unfinished = fmt::format("{} of {} families are done", done, families.size());
  std::vector<FamilyPrediction> finished;
  for (std::size_t f = 0; f < all.size(); ++f)
    if (is_done[f]) finished.push_back(std::move(all[f]));
  return finished;
}

std::vector<RunPrediction> predict_runs(const std::vector<MeasuredFamily>& families,
                                        const std::vector<RunOfFamily>& rows, const std::string& what) {
  std::vector<RunPrediction> runs;
  for (std::optional<RunPrediction>& run : predict_rows(families, rows, what)) {
    if (!run) throw Interruption();
    runs.push_back(*std::move(run));
  }
  return runs;
}

}  // namespace trainyard
