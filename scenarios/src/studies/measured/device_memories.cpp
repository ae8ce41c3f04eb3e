#include "scenarios/src/studies/measured/device_memories.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

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
  } catch (const UserError& e) {
    run.refused = e.what();
  }
  return run;
}

}  // namespace

const std::vector<MemoryQuantity>& memory_quantities() {
  static const std::vector<MemoryQuantity> all{
      {"peak memory", &MeasuredRun::peak_memory, &Result::Memory::peak},
      {"reserved memory", &MeasuredRun::reserved_memory, &Result::Memory::reserved},
      {"device memory", &MeasuredRun::device_memory, &Result::Memory::device}};
  return all;
}

std::optional<ErrorSet> FamilyMemory::errors(const MemoryQuantity& quantity) const {
  std::vector<MeasuredPoint> points;
  for (const MemoryPrediction& run : runs)
    if (const double measured = (run.measured.*quantity.measured).value; run.refused.empty() && measured > 0)
      points.push_back({run.id, (run.memory.*quantity.predicted).value, measured});
  if (points.empty()) return std::nullopt;
  return error_set(fmt::format("{} of {}", quantity.name, name), std::move(points));
}

std::vector<FamilyMemory> predict_memories(const std::vector<MeasuredFamily>& families) {
  std::vector<std::pair<std::size_t, std::size_t>> rows;
  std::vector<FamilyMemory> all;
  for (std::size_t f = 0; f < families.size(); ++f) {
    all.push_back({families[f], {}});
    for (std::size_t row = 0; row < families[f].ids.size(); ++row) rows.emplace_back(f, row);
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

double memory_spread(const std::vector<FamilyMemory>& families) {
  double sum = 0, count = 0;
  for (const FamilyMemory& family : families)
    for (const MemoryQuantity& quantity : memory_quantities())
      if (const std::optional<ErrorSet> errors = family.errors(quantity)) {
        double squares = 0;
        for (const MeasuredPoint& point : errors->points)
          squares += std::pow(std::log(point.measured / point.predicted), 2);
        sum += squares / static_cast<double>(errors->n);
        ++count;
      }
  return count > 0 ? std::sqrt(sum / count) : 0;
}

MemoryVerdicts memory_verdicts(const std::vector<FamilyMemory>& families, bool out_of_memory) {
  MemoryVerdicts verdicts;
  for (const FamilyMemory& family : families)
    for (const MemoryPrediction& run : family.runs) {
      if (!run.refused.empty() || run.measured.out_of_memory != out_of_memory) continue;
      ++verdicts.runs;
      ++(run.fits == "yes" ? verdicts.yes : run.fits == "no" ? verdicts.no : verdicts.at_risk);
    }
  return verdicts;
}

}  // namespace trainyard
