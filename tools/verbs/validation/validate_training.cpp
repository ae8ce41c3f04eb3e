#include "tools/verbs/validation/validate_training.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/training_study.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::json;

std::string limit_text(double mean, double rank, double error, double correlation) {
  if (mean == 0) return "none";
  std::string text = fmt::format("mean {:.3g} %", mean * 100);
  if (rank != 0) text += fmt::format(", rank {}", rank);
  return text + (error <= mean && (rank == 0 || correlation >= rank) ? ": holds" : ": FAILS");
}

void add_row(TextTable& table, const ErrorSet& errors, std::size_t runs, const std::string& limit) {
  table.rows.push_back({errors.name,
                        errors.n == runs ? fmt::format("{}", runs) : fmt::format("{} of {}", errors.n, runs),
                        percent(errors.mean_abs), percent(errors.median_abs), percent(errors.worst_abs),
                        signed_percent(errors.signed_mean), fmt::format("{:.3f}", errors.rank_correlation), limit});
}

/// What every run was predicted as.
TextTable points_table(const std::vector<FamilyPrediction>& all) {
  TextTable table{{"run", "step", "predicted", "error", "peak memory", "predicted", "error"},
                  {false, true, true, true, true, true, true},
                  {}};
  for (const FamilyPrediction& family : all)
    for (const RunPrediction& run : family.runs) {
      const std::string id = family.name + "@" + run.id;
      if (!run.refused.empty()) {
        table.rows.push_back({id, "", "refused", "", "", "", ""});
        continue;
      }
      std::vector<std::string> row{id, show(Seconds{run.measured_step_time}), show(Seconds{run.step_time}),
                                   signed_percent(run.step_time / run.measured_step_time - 1)};
      if (run.measured_peak_memory > 0)
        row.insert(row.end(), {show(Bytes{run.measured_peak_memory}), show(Bytes{run.peak_memory}),
                               signed_percent(run.peak_memory / run.measured_peak_memory - 1)});
      else
        row.insert(row.end(), {"", run.fits ? "" : "does not fit", ""});
      table.rows.push_back(std::move(row));
    }
  return table;
}

/// Why runs are not predicted, each reason once.
std::string refusals(const std::vector<FamilyPrediction>& all) {
  std::string text;
  for (const FamilyPrediction& family : all) {
    if (family.refused() == 0) continue;
    for (const RunPrediction& run : family.runs)
      if (!run.refused.empty()) {
        text += fmt::format("{}: {} of {} runs are not predicted, such as {}: {}\n", family.name, family.refused(),
                            family.runs.size(), run.id, run.refused);
        break;
      }
  }
  return text;
}

/// Runs that were measured but do not fit into memory as predicted.
std::string misfits(const std::vector<FamilyPrediction>& all) {
  std::size_t count = 0;
  for (const FamilyPrediction& family : all)
    for (const RunPrediction& run : family.runs) count += run.fits ? 0 : 1;
  return count == 0 ? "" : fmt::format("{} runs were measured, but would not fit in memory as predicted\n", count);
}

struct Summary {
  TextTable table{{"set", "n", "mean", "median", "worst", "signed mean", "rank", "limit"},
                  {false, true, true, true, true, true, true, false},
                  {}};
  Json sets = Json::array();
  double mean = 0;  ///< over families, each once
  int families = 0;
  bool holds = true;
};

Summary summary_of(const std::vector<FamilyPrediction>& all) {
  Summary summary;
  for (const FamilyPrediction& family : all) {
    const auto times = family.step_times();
    summary.holds &= family.within_limits();
    if (!times) continue;
    const MeasuredLimits& limits = family.limits;
    add_row(summary.table, *times, family.runs.size(),
            limit_text(limits.mean_time, limits.rank_correlation, times->mean_abs, times->rank_correlation));
    summary.sets.emplace_back(to_json(*times, true, {{}, {}, family.within_limits()}));
    summary.mean += times->mean_abs;
    ++summary.families;
  }
  for (const FamilyPrediction& family : all)
    if (const auto memories = family.peak_memories()) {
      add_row(summary.table, *memories, memories->n, limit_text(family.limits.mean_memory, 0, memories->mean_abs, 0));
      summary.sets.emplace_back(to_json(*memories, true, {{}, {}, family.within_limits()}));
    }
  for (const FamilyPrediction& family : all)
    if (const auto scaling = family.efficiencies()) {
      add_row(summary.table, *scaling, scaling->n, limit_text(family.limits.mean_efficiency, 0, scaling->mean_abs, 0));
      summary.sets.emplace_back(to_json(*scaling, true, {{}, {}, family.within_limits()}));
    }
  for (const ErrorSet& errors : errors_by_stack(all)) {
    add_row(summary.table, errors, errors.n, "none");
    summary.sets.emplace_back(to_json(errors, false, {}));
  }
  if (summary.families > 0) summary.mean /= summary.families;
  return summary;
}

}  // namespace

int validate_training(const ValidationOutputs& outputs, const std::string& folder,
                      const std::vector<std::string>& families) {
  const std::vector<FamilyPrediction> all = predict_training(measured_families(folder, families));
  const Summary summary = summary_of(all);
  if (outputs.prints()) {
    fmt::print("measured training runs (scenarios/measured/{}) against the simulator\n", folder);
    if (outputs.points) fmt::print("{}\n", points_table(all).text());
    fmt::print("{}mean over {} families, each once: {}\n{}{}", summary.table.text(), summary.families,
               percent(summary.mean), refusals(all), misfits(all));
    fmt::print("what is fitted to measured runs: trainyard validate training --knobs\n");
  }
  outputs.write("Measured training runs", summary.sets);
  return summary.holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
