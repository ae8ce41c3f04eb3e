#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

using Predictions = std::vector<FamilyPrediction>;
using Errors = std::optional<ErrorSet>;

std::vector<std::string> points_of(const RunPrediction& run, const std::string& id) {
  if (!run.refused.empty()) return {id, "", "refused", "", "", "", ""};
  const MeasuredRun& measured = run.measured;
  std::vector<std::string> row{id, "", show(Seconds{run.step_time}), "", "", run.fits ? "" : "does not fit", ""};
  if (measured.is_given()) {
    row[1] = show(measured.step_time);
    row[3] = signed_percent(run.step_time / measured.step_time.value - 1);
  }
  if (measured.peak_memory.value > 0) {
    row[4] = show(measured.peak_memory);
    row[5] = show(Bytes{run.peak_memory});
    row[6] = signed_percent(run.peak_memory / measured.peak_memory.value - 1);
  }
  return row;
}

/// A table of every run with its measured and predicted figures.
std::string points_table(const Predictions& all) {
  TextTable table{"run", ">step", ">predicted", ">error", ">peak memory", ">predicted", ">error"};
  TextTable figures{"run", "figure", ">measured", ">predicted"};
  for (const FamilyPrediction& family : all)
    for (const RunPrediction& run : family.runs) {
      const std::string id = family.name + "@" + run.id;
      table.rows.push_back(points_of(run, id));
      for (std::size_t f = 0; f < run.figures.size(); ++f)
        figures.rows.push_back({id, family.figures[f].name, fmt::format("{:.4g}", run.figures[f].second),
                                fmt::format("{:.4g}", run.figures[f].first)});
    }
  return table.text() + (figures.rows.empty() ? "" : "\n" + figures.text());
}

/// Says for each family how many runs are not predicted, with the first reason, and how many measured runs would not fit
/// into memory as predicted.
std::string refusals_and_misfits(const Predictions& all) {
  std::string text;
  std::ptrdiff_t misfits = 0;
  for (const FamilyPrediction& family : all) {
    misfits += std::ranges::count(family.runs, false, &RunPrediction::fits);
    const auto refused = std::ranges::find_if(family.runs, [](const auto& run) { return !run.refused.empty(); });
    if (refused != family.runs.end())
      text += fmt::format("{}: {} of {} runs are not predicted, such as {}: {}\n", family.name, family.refused_runs(),
                          family.runs.size(), refused->id, refused->refused);
  }
  if (misfits > 0) text += fmt::format("{} runs were measured, but would not fit in memory as predicted\n", misfits);
  return text;
}

/// Says how many measured steps lie in the 80 % intervals that `run` prints, by rows and as a mean over the families.
/// Empty if none has an interval.
std::string covered_steps(const Predictions& all) {
  std::vector<CoveredRow> rows;
  for (const FamilyPrediction& family : all)
    for (const RunPrediction& run : family.runs)
      if (run.doubt.exists() && run.measured.is_given())
        rows.push_back(covered_row(family.name, run.measured.step_time.value / run.step_time, [&](double probability) {
          return DoubtModel::shipped().range(run.doubt, probability);
        }));
  if (rows.empty()) return "";
  const ClassCoverage coverage = coverage_of("", 0, rows);
  return fmt::format(
      "80 % intervals of run hold {} of {} measured steps ({}; {} on average over the families); median half width "
      "±{}\n",
      std::ranges::count_if(rows, [](const CoveredRow& row) { return row.inside[kLikelyIndex]; }), rows.size(),
      percent(coverage.by_steps[kLikelyIndex]), percent(coverage.by_families[kLikelyIndex]),
      percent(coverage.half_width));
}

/// The sets in the order of the report: step times of all families, memory, efficiencies, other figures, step times by
/// stack.
std::vector<JudgedSet> judged_sets(const Predictions& all) {
  std::vector<JudgedSet> sets;
  const auto add = [&](const FamilyPrediction& family, Errors errors, const ErrorLimits& limits, std::size_t runs = 0) {
    if (errors) sets.push_back({std::move(*errors), limits, family.within_limits(), runs});
  };
  for (const FamilyPrediction& f : all) add(f, f.step_times(), f.limits.time, f.runs.size());
  for (const FamilyPrediction& f : all) add(f, f.peak_memories(), {.mean = f.limits.memory.mean});
  for (const FamilyPrediction& f : all) add(f, f.efficiencies(), f.limits.efficiency);
  for (const FamilyPrediction& f : all)
    for (std::size_t i = 0; i < f.figures.size(); ++i) add(f, f.figure(i), f.figures[i].limits);
  for (ErrorSet& errors : errors_by_stack(all)) sets.push_back({.errors = std::move(errors), .draws = false});
  return sets;
}

}  // namespace

int validate_runs(const ValidationRequest& request) {
  std::string unfinished;
  // The intervals were fitted to the other sets.
  const bool judges_intervals = request.set == "outside-the-fit" || request.set.ends_with(".yaml");
  const Predictions all =
      predict_families(measured_families({request.set}, request.families), &unfinished, judges_intervals);
  const std::vector<JudgedSet> sets = judged_sets(all);
  double mean = 0;
  int families = 0;
  for (const FamilyPrediction& family : all)
    if (const Errors times = family.step_times()) mean += times->mean_abs, ++families;
  const bool shipped = !request.set.ends_with(".yaml");
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
  text += covered_steps(all) + refusals_and_misfits(all);
  if (shipped) text += "what is fitted to measured runs: trainyard validate training --knobs\n";
  report(request, "Measured training runs", text, sets, unfinished);
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
