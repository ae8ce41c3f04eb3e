#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "sim/observers/progress.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

using Predictions = std::vector<FamilyPrediction>;
using Errors = std::optional<ErrorSet>;

/// The rows of a run: the first has the step time and whether the run fits into memory; each measured memory has one, and
/// the first of them is that of the step time.
std::vector<std::vector<std::string>> points_of(const RunPrediction& run, const std::string& id) {
  if (!run.refused.empty()) return {{id, "", "refused", "", "", "", "", "", "", ""}};
  const MeasuredRun& measured = run.measured;
  std::vector<std::vector<std::string>> rows{{id, "", show(Seconds{run.step_time}), "", "", "", "", "", "",
                                              run.fits_in_words == "yes" ? "" : run.fits_in_words}};
  if (measured.is_given()) {
    rows[0][1] = show(measured.step_time);
    rows[0][3] = signed_percent(run.step_time / measured.step_time.value - 1);
    if (const auto likely = likely_step_times(run.step_time, run.doubt))
      rows[0][4] = fmt::format("{} to {}", show(Seconds{likely->front()}), show(Seconds{likely->back()}));
  }
  const auto add_memory = [&](const std::string& name, const std::string& value, Bytes predicted,
                              const std::string& error) {
    if (!rows.back()[5].empty()) rows.push_back({id, "", "", "", "", "", "", "", "", ""});
    std::ranges::copy(std::vector{name, value, show(predicted), error}, rows.back().begin() + 5);
  };
  for (const MemoryQuantity& quantity : memory_quantities())
    if (const Bytes value = measured.*quantity.measured; value.value > 0)
      add_memory(quantity.name, show(value), run.memory.*quantity.predicted,
                 signed_percent(run.memory.*quantity.predicted / value - 1));
  if (measured.out_of_memory) add_memory("device memory", "out of memory", run.memory.device, "");
  return rows;
}

/// A table of every run with its measured and predicted figures.
std::string points_table(const Predictions& all) {
  TextTable table{"run",      ">step",     ">predicted", ">error", ">in 80 %",
                  "quantity", ">measured", ">predicted", ">error", "fits"};
  TextTable figures{"run", "figure", ">measured", ">predicted"};
  for (const FamilyPrediction& family : all)
    for (const RunPrediction& run : family.runs) {
      const std::string id = family.name + "@" + run.id;
      std::ranges::move(points_of(run, id), std::back_inserter(table.rows));
      for (std::size_t f = 0; f < run.figures.size(); ++f)
        figures.rows.push_back({id, family.figures[f].name, fmt::format("{:.4g}", run.figures[f].second),
                                fmt::format("{:.4g}", run.figures[f].first)});
    }
  return table.text() + (figures.rows.empty() ? "" : "\n" + figures.text());
}

/// Says for each family how many runs are not predicted, with the first reason, how many runs that ran would not fit into
/// memory as predicted, and what the answers are for runs that ran out of memory.
std::string refusals_and_misfits(const Predictions& all) {
  std::string text;
  std::ptrdiff_t misfits = 0;
  std::map<std::string_view, std::ptrdiff_t> failed;  // runs that ran out of memory, by the answer
  for (const FamilyPrediction& family : all) {
    for (const RunPrediction& run : family.runs) {
      if (!run.refused.empty()) continue;
      if (run.measured.out_of_memory)
        ++failed[run.fits_in_words];
      else  // an engine's memory is not that of a step
        misfits += run.measured.is_given() && !run.fits;
    }
    const auto refused = std::ranges::find_if(family.runs, [](const auto& run) { return !run.refused.empty(); });
    if (refused != family.runs.end())
      text += fmt::format("{}: {} of {} runs are not predicted, such as {}: {}\n", family.name, family.refused_runs(),
                          family.runs.size(), refused->id, refused->refused);
  }
  if (misfits > 0)
    text += fmt::format("{} measured, but would not fit in memory as predicted\n",
                        misfits == 1 ? "1 run was" : fmt::format("{} runs were", misfits));
  if (!failed.empty())
    text += fmt::format("runs that ran out of memory: {} would fit as predicted, {} are at risk, {} do not fit\n",
                        failed["yes"], failed["at risk"], failed["no"]);
  return text;
}

/// Says how many measured steps lie in their 80 % intervals, by rows and as a mean over the families. Empty if none has
/// an interval. `left_out`: the intervals are those that the steps of all other families leave, and not those of `run`.
std::string covered_steps(const Predictions& all, bool left_out) {
  std::vector<CoveredRow> rows;
  ProgressLine progress;
  for (std::size_t f = 0; f < all.size(); ++f) {
    const FamilyPrediction& family = all[f];
    std::optional<DoubtWithoutFamily> without;
    if (left_out) {
      progress.show(fmt::format("intervals of steps: family {} of {}", f + 1, all.size()));
      without.emplace(kept_left_out_steps(), family.name);
    }
    for (const RunPrediction& run : family.runs) {
      if (!run.doubt.exists() || !run.measured.is_given()) continue;
      const DoubtModel& model = without ? without->model() : DoubtModel::shipped();
      const StepDoubt doubt = without ? without->doubt(run.profile) : run.doubt;
      rows.push_back(covered_row(family.name, run.measured.step_time.value / run.step_time,
                                 [&](double probability) { return model.range(doubt, probability); }));
    }
  }
  if (rows.empty()) return "";
  const ClassCoverage coverage = coverage_of("", 0, rows);
  return fmt::format(
      "80 % intervals {} hold {} of {} measured steps ({}; {} on average over the families); median half width ±{}\n",
      left_out ? "without its family" : "of run",
      std::ranges::count_if(rows, [](const CoveredRow& row) { return row.inside[kLikelyIndex]; }), rows.size(),
      percent(coverage.by_steps[kLikelyIndex]), percent(coverage.by_families[kLikelyIndex]),
      percent(coverage.half_width));
}

/// Says how many measured memories of devices lie in the 80 % intervals that `run` prints. Empty if none was measured.
std::string covered_memories(const Predictions& all) {
  std::size_t measured = 0, inside = 0;
  for (const FamilyPrediction& family : all)
    for (const RunPrediction& run : family.runs) {
      const double value = run.measured.device_memory.value;
      if (value == 0 || run.memory_interval.empty()) continue;
      ++measured;
      inside += value >= run.memory_interval.front() && value <= run.memory_interval.back();
    }
  if (measured == 0) return "";
  return fmt::format("80 % intervals of run hold {} of {} measured memories of devices ({})\n", inside, measured,
                     percent(static_cast<double>(inside) / static_cast<double>(measured)));
}

/// The sets in the order of the report: step times of all families, memory, efficiencies, other figures, step times by
/// stack.
std::vector<JudgedSet> judged_sets(const Predictions& all) {
  std::vector<JudgedSet> sets;
  const auto add = [&](const FamilyPrediction& family, Errors errors, const ErrorLimits& limits, std::size_t runs = 0) {
    if (errors) sets.push_back({std::move(*errors), limits, family.within_limits(), runs});
  };
  for (const FamilyPrediction& f : all) add(f, f.step_times(), f.limits.time, f.runs.size());
  for (const FamilyPrediction& f : all)
    for (const MemoryQuantity& quantity : memory_quantities()) add(f, f.memories(quantity), f.limits.memory);
  for (const FamilyPrediction& f : all) add(f, f.efficiencies(), f.limits.efficiency);
  for (const FamilyPrediction& f : all)
    for (std::size_t i = 0; i < f.figures.size(); ++i) add(f, f.figure(i), f.figures[i].limits);
  for (ErrorSet& errors : errors_by_stack(all)) sets.push_back({.errors = std::move(errors), .draws = false});
  return sets;
}

/// The runs that are not predicted, with the reasons.
std::vector<std::pair<std::string, std::string>> refused_runs(const Predictions& all) {
  std::vector<std::pair<std::string, std::string>> refused;
  for (const FamilyPrediction& family : all)
    for (const RunPrediction& run : family.runs)
      if (!run.refused.empty()) refused.emplace_back(family.name + "@" + run.id, run.refused);
  return refused;
}

/// Throws UserError if no run of a user's file is predicted, or if none measures anything.
void check_judged(const FamilyPrediction& family, const std::string& file) {
  if (family.refused_runs() == family.runs.size())
    throw UserError(fmt::format("{}: none of {} runs is predicted, such as {}: {}", file, family.runs.size(),
                                family.runs.front().id, family.runs.front().refused));
  const bool measures = std::ranges::any_of(family.runs, [](const RunPrediction& run) {
    return run.measured.is_given() || run.measured.has_memory() || run.measured.out_of_memory || !run.figures.empty();
  });
  if (!measures)
    throw UserError(fmt::format("{}: no run has a measured value; expected a column such as measured.step_time", file));
}

}  // namespace

int validate_runs(const ValidationRequest& request) {
  std::string unfinished;
  // The intervals were fitted to the other sets.
  const bool judges_intervals = request.set == kUnfittedSet || request.set.ends_with(".yaml");
  const Predictions all =
      predict_families(measured_families({request.set}, request.families), &unfinished, judges_intervals);
  const bool shipped = !request.set.ends_with(".yaml");
  if (!shipped)
    for (const FamilyPrediction& family : all) check_judged(family, request.set);
  const std::vector<JudgedSet> sets = judged_sets(all);
  double mean = 0;
  int families = 0;
  for (const FamilyPrediction& family : all)
    if (const Errors times = family.step_times()) mean += times->mean_abs, ++families;
  std::string text =
      shipped ? fmt::format("measured training runs (scenarios/measured/{}) against the simulator\n", request.set)
              : fmt::format("measured runs ({}) against the simulator\n", request.set);
  if (!unfinished.empty()) text += fmt::format("unfinished: {}\n", unfinished);
  if (request.points) text += points_table(all) + "\n";
  text += error_table(sets, {"mean", "median", "worst", "signed mean", "rank"}, "none");
  text +=
      "errors: predicted over measured, minus one; mean, median and worst without their signs\n"
      "rank: Spearman's correlation of predicted and measured values (1: the same order)\n";
  if (families > 0)
    text +=
        fmt::format("mean over {}: {}\n", families == 1 ? "1 family" : fmt::format("{} families, each once", families),
                    percent(mean / families));
  if (judges_intervals) text += covered_steps(all, request.set == kUnfittedSet) + covered_memories(all);
  text += refusals_and_misfits(all);
  if (shipped) text += "what is fitted to measured runs: trainyard validate training --knobs\n";
  report(request, "Measured training runs", text, sets, unfinished, refused_runs(all));
  if (!unfinished.empty()) {
    complain(fmt::format("interrupted: {}; the answer has these alone", unfinished));
    return kInterrupted;
  }
  return std::ranges::all_of(all, &FamilyPrediction::within_limits) ? kGood : kFailsLimit;
}

int validate_data_parallel(const ValidationRequest& request) {
  TextTable rows{"row", ">measured", ">predicted", ">error, points"};
  std::vector<JudgedSet> sets;
  std::string source, notes;
  for (const FamilyPrediction& family : predict_families(measured_families({"dataparallel"}))) {
    sets.push_back(judge_set(*family.figure(0), family.figures[0].limits));
    for (const MeasuredPoint& p : sets.back().errors.points)
      rows.rows.push_back({family.name + ": " + p.id, fmt::format("{:.3f}", p.measured),
                           fmt::format("{:.3f}", p.predicted), fmt::format("{:+.1f}", p.error() * 100)});
    source = family.source;
    notes += family.filled_note();
  }
  return report(
      request, "",
      fmt::format(
          "{}; scaling efficiency: the measured step of one GPU over the simulated step\n{}\n{}{}", source, rows.text(),
          error_table(sets, {"mean", "median", "worst", "signed mean", "rank"}, "none: order only", true), notes),
      sets);
}

}  // namespace trainyard
