#include "tools/verbs/validation/validate_memory.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/training_study.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string memory_limits(const MeasuredLimits& limits, const ErrorSet& errors) {
  std::string text;
  bool holds = true;
  const auto add = [&](const char* what, double limit, double error) {
    if (limit == 0) return;
    text += fmt::format("{}{} {:.3g} %", text.empty() ? "" : ", ", what, limit * 100);
    holds = holds && error <= limit;
  };
  add("mean", limits.mean_memory, errors.mean_abs);
  add("worst", limits.worst_memory, errors.worst_abs);
  return text.empty() ? "none" : text + (holds ? ": holds" : ": FAILS");
}

}  // namespace

int validate_memory(const ValidationOutputs& outputs) {
  std::vector<MeasuredFamily> families = families_with_memory("training");
  for (const char* folder : {"mlperf", "memory"})
    for (MeasuredFamily& family : families_with_memory(folder)) families.push_back(std::move(family));
  TextTable table{{"set", "n", "mean", "median", "worst", "signed mean", "limit"},
                  {false, true, true, true, true, true, false},
                  {}};
  TextTable points{{"run", "measured", "predicted", "error"}, {false, true, true, true}, {}};
  nlohmann::json sets = nlohmann::json::array();
  std::string refused;
  bool holds = true;
  for (const FamilyPrediction& family : predict_training(families)) {
    holds = holds && family.within_memory_limits() && family.refused() == 0;
    for (const RunPrediction& run : family.runs)
      if (!run.refused.empty())
        refused += fmt::format("{}@{} is not predicted: {}\n", family.name, run.id, run.refused);
    for (const auto& errors : {family.peak_memories(), family.reserved_memories()}) {
      if (!errors) continue;
      table.rows.push_back({errors->name, fmt::format("{}", errors->n), percent(errors->mean_abs),
                            percent(errors->median_abs), percent(errors->worst_abs),
                            signed_percent(errors->signed_mean), memory_limits(family.limits, *errors)});
      for (const MeasuredPoint& point : errors->points)
        points.rows.push_back({family.name + "@" + point.id, show(Bytes{point.measured}), show(Bytes{point.predicted}),
                               signed_percent(point.error())});
      sets.emplace_back(to_json(*errors, true, {{}, {}, family.within_memory_limits()}));
    }
  }
  if (outputs.prints()) {
    fmt::print(
        "memory of the fullest rank in measured training runs: what is allocated at the peak, or what the allocator "
        "reserved\n");
    if (outputs.points) fmt::print("{}\n", points.text());
    fmt::print("{}{}", table.text(), refused);
  }
  outputs.write("Memory of measured training runs", sets);
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
