#include "scenarios/src/studies/measured/device_memories.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "models/fitted/fitting.hpp"
#include "scenarios/src/answer/csv_cell.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/program_memory.hpp"
#include "sim/error.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

MemoryPrediction predict_memory(const MeasuredFamily& family, std::size_t row) {
  MemoryPrediction run;
  run.id = family.ids[row];
  try {
    const Scenario scenario = read_scenario(family.scenario(row), run.id);
    run.measured = scenario.measured_run;
    const Result result = memory_of_step(scenario);
    run.memory = result.memory;
    run.fits = result.fits_in_words();
    run.reserve_measured = has_measured_reserve(scenario.software);
    run.reserve_spread = scenario.software.reserved_memory_spread;
  } catch (const UserError& e) {
    run.refused = e.what();
  }
  return run;
}

}  // namespace

std::optional<ErrorSet> FamilyMemory::errors(const MemoryQuantity& quantity) const {
  std::vector<MeasuredPoint> points;
  for (const MemoryPrediction& run : runs)
    if (const double measured = (run.measured.*quantity.measured).value; run.refused.empty() && measured > 0)
      points.push_back({run.id, (run.memory.*quantity.predicted).value, measured});
  if (points.empty()) return std::nullopt;
  return error_set(fmt::format("{} of {}", quantity.name, name), std::move(points));
}

std::string FamilyMemory::source_name() const {
  std::string words = source.substr(0, source.find_first_of(",;("));
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

std::vector<MeasuredFamily> memory_families(const std::vector<std::string>& names) {
  return measured_families({"training", "training-2026", "mlperf", "mlperf-v6", "memory"}, names);
}

std::vector<FamilyMemory> predict_memories(const std::vector<MeasuredFamily>& families, std::size_t most_of_family) {
  std::vector<std::pair<std::size_t, std::size_t>> rows;
  std::vector<FamilyMemory> all;
  for (std::size_t f = 0; f < families.size(); ++f) {
    all.push_back({families[f], {}});
    const std::size_t runs = families[f].ids.size(), taken = std::min(runs, most_of_family);
    for (std::size_t i = 0; i < taken; ++i) rows.emplace_back(f, i * runs / taken);
  }
  ProgressLine progress;
  std::size_t finished_runs = 0;
  std::vector<MemoryPrediction> runs = all_in_parallel(
      rows.size(), processors(), [&](std::size_t i) { return predict_memory(families[rows[i].first], rows[i].second); },
      [&](std::size_t, const MemoryPrediction&) {
        progress.show(fmt::format("{} of {} measured runs", ++finished_runs, rows.size()));
      });
  for (std::size_t i = 0; i < rows.size(); ++i) all[rows[i].first].runs.push_back(std::move(runs[i]));
  return all;
}

namespace {

/// A measured memory beside its prediction.
struct MemoryError {
  std::string family, source;
  double error = 0;  ///< ln(measured / predicted)
  bool reserve_measured = false, outside = false;
  double reserve_spread = 0;
  double weight = 1;
};

std::vector<MemoryError> memory_errors(const std::vector<FamilyMemory>& families) {
  std::vector<MemoryError> all;
  for (const FamilyMemory& family : families)
    for (const MemoryQuantity& quantity : memory_quantities()) {
      const std::size_t first = all.size();
      for (const MemoryPrediction& run : family.runs)
        if (const Bytes measured = run.measured.*quantity.measured; run.refused.empty() && measured.value > 0)
          all.push_back({family.name, family.source_name(), std::log(measured / run.memory.*quantity.predicted),
                         run.reserve_measured, quantity.outside, run.reserve_spread});
      for (std::size_t i = first; i < all.size(); ++i) all[i].weight = 1 / static_cast<double>(all.size() - first);
    }
  return all;
}

/// Spreads of the terms before any measurement.
constexpr std::array<double, MemoryDoubt::kTerms.size()> kPriors{0.05, 0.1, 0.05};

MemoryDoubt fit_memory_errors(const std::vector<MemoryError>& all, const std::string& left_out) {
  MemoryDoubt doubt;
  std::array<double, kPriors.size()> logs{};
  std::ranges::transform(kPriors, logs.begin(), [](double prior) { return std::log(prior); });
  const auto misfit = [&] {  // twice the negative logarithm of the likelihood of all errors and of the priors
    std::ranges::transform(logs, doubt.spreads.begin(), [](double log) { return std::exp(log); });
    double sum = 0;
    for (const MemoryError& e : all) {
      if (e.source == left_out) continue;
      const double variance = std::pow(doubt.spread(e.reserve_measured, e.outside, e.reserve_spread), 2);
      sum += e.weight * (std::log(variance) + e.error * e.error / variance);
    }
    for (std::size_t t = 0; t < kPriors.size(); ++t)
      sum += 2 * std::log(doubt.spreads[t]) + std::pow(kPriors[t] / doubt.spreads[t], 2);
    return sum;
  };
  pattern_search(logs, misfit);
  misfit();
  return doubt;
}

/// Returns the doubt that is fitted without each source.
std::map<std::string, MemoryDoubt> left_out_doubts(const std::vector<FamilyMemory>& families) {
  const std::vector<MemoryError> all = memory_errors(families);
  std::map<std::string, MemoryDoubt> doubts;
  for (const FamilyMemory& family : families)
    if (const std::string source = family.source_name(); !doubts.contains(source))
      doubts.emplace(source, fit_memory_errors(all, source));
  return doubts;
}

}  // namespace

MemoryDoubt fit_memory_doubt(const std::vector<FamilyMemory>& families, const std::string& left_out) {
  return fit_memory_errors(memory_errors(families), left_out);
}

std::string memory_doubt_csv(const MemoryDoubt& doubt) {
  constexpr std::array<const char*, MemoryDoubt::kTerms.size()> words{
      "what a step allocates", "no measured figure of the stack says what its allocator holds",
      "what allocator, CUDA and NCCL add"};
  std::string text =
      "# Standard deviation of ln(measured / predicted) memory of a device: the square root of the sum of the squares "
      "of the terms\n# that apply. Repeat: trainyard validate memory --csv FILE\nwhat,value,words\n";
  for (std::size_t t = 0; t < words.size(); ++t)
    text += fmt::format("{},{:.4f},{}\n", MemoryDoubt::kTerms[t], doubt.spreads[t], csv_cell(words[t]));
  return text;
}

std::vector<CoveredRow> cover_each_memory(const std::vector<FamilyMemory>& families) {
  const std::map<std::string, MemoryDoubt> doubts = left_out_doubts(families);
  std::vector<CoveredRow> covered;
  for (const MemoryError& e : memory_errors(families)) {
    DeviceMemory predicted;
    predicted.device = Bytes{1};
    predicted.spread = doubts.at(e.source).spread(e.reserve_measured, e.outside, e.reserve_spread);
    covered.push_back(covered_row(e.family, std::exp(e.error), [&predicted](double probability) {
      const auto [low, high] = predicted.interval(probability);
      return StepRange{low.value, high.value};
    }));
  }
  return covered;
}

MemoryVerdicts memory_verdicts(const std::vector<FamilyMemory>& families, bool out_of_memory, bool left_out) {
  const auto doubts = left_out ? left_out_doubts(families) : std::map<std::string, MemoryDoubt>{};
  MemoryVerdicts verdicts;
  for (const FamilyMemory& family : families)
    for (const MemoryPrediction& run : family.runs) {
      if (!run.refused.empty() || run.measured.out_of_memory != out_of_memory) continue;
      std::string fits = run.fits;
      const auto risk = [&run](const MemoryDoubt& doubt) {
        return memory_risk(run.memory.needed, run.memory.usable,
                           doubt.spread(run.reserve_measured, true, run.reserve_spread));
      };
      // Hosts and drives that are too small are no matter of this doubt, nor are states that exceed the memory.
      if (left_out && run.memory.states() <= run.memory.usable && fits == fits_in_words(risk(MemoryDoubt::shipped())))
        fits = fits_in_words(risk(doubts.at(family.source_name())));
      ++verdicts.runs;
      ++(fits == "yes" ? verdicts.yes : fits == "no" ? verdicts.no : verdicts.at_risk);
    }
  return verdicts;
}

}  // namespace trainyard
