#include <fmt/format.h>

#include <string>
#include <vector>

#include "scenarios/src/studies/measured/device_memories.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

/// The answers for measured runs, by whether they ran. Clears `pass` if a run that ran out of memory has the answer
/// "yes", or too many of the others "no".
std::string verdicts_table(const std::vector<FamilyMemory>& families, bool& pass) {
  TextTable table{"measured runs", ">n", ">fits", ">at risk", ">does not fit", "limit"};
  for (const bool out_of_memory : {false, true}) {
    const MemoryVerdicts v = memory_verdicts(families, out_of_memory);
    const bool holds =
        out_of_memory ? v.yes == 0 : static_cast<double>(v.no) <= kMostRefused * static_cast<double>(v.runs);
    pass = pass && holds;
    table.rows.push_back(
        {out_of_memory ? "ran out of memory" : "ran", fmt::format("{}", v.runs), fmt::format("{}", v.yes),
         fmt::format("{}", v.at_risk), fmt::format("{}", v.no),
         fmt::format("{}: {}", out_of_memory ? "none fits" : "one in fifty does not fit", holds ? "holds" : "MISSED")});
  }
  return table.text();
}

/// The runs that ran although the answer is "no".
std::string refused_although_ran(const std::vector<FamilyMemory>& families) {
  std::string text;
  for (const FamilyMemory& family : families)
    for (const MemoryPrediction& run : family.runs)
      if (run.fits == "no" && !run.measured.out_of_memory)
        text += fmt::format("{}@{} ran, but is said to need {} of {}\n", family.name, run.id, show(run.memory.needed),
                            show(run.memory.usable));
  return text;
}

}  // namespace

int validate_memory(const ValidationRequest& request) {
  const std::vector<MeasuredFamily> families = memory_families(request.families);
  TextTable points{"run", "quantity", ">measured", ">predicted", ">error", "fits"};
  std::vector<JudgedSet> sets;
  std::string refused;
  MemoryDoubt::shipped();  // refuses to overwrite the table before any run is predicted
  const std::vector<FamilyMemory> all = predict_memories(families);
  for (const FamilyMemory& family : all) {
    bool measured = false;
    for (const MemoryQuantity& quantity : memory_quantities()) {
      const std::optional<ErrorSet> errors = family.errors(quantity);
      if (!errors) continue;
      measured = true;
      sets.push_back({*errors, family.limits.memory, holds(family.limits.memory, *errors)});
      for (const MemoryPrediction& run : family.runs)
        if (const Bytes value = run.measured.*quantity.measured; run.refused.empty() && value.value > 0)
          points.rows.push_back({family.name + "@" + run.id, quantity.name, show(value),
                                 show(run.memory.*quantity.predicted),
                                 signed_percent(run.memory.*quantity.predicted / value - 1), run.fits});
    }
    for (const MemoryPrediction& run : family.runs) {
      if (measured && !run.refused.empty())
        refused += fmt::format("{}@{} is not predicted: {}\n", family.name, run.id, run.refused);
      if (run.measured.out_of_memory && run.refused.empty())
        points.rows.push_back(
            {family.name + "@" + run.id, "device memory", "out of memory", show(run.memory.device), "", run.fits});
    }
  }
  bool pass = refused.empty();
  const std::string verdicts = verdicts_table(all, pass);
  const MemoryDoubt doubt = fit_memory_doubt(all);
  if (!request.csv.empty()) write_atomically(request.csv, memory_doubt_csv(doubt));
  const int code =
      report(request, "Memory of measured training runs",
             fmt::format("memory of the fullest rank in measured training runs: what is allocated at the peak (peak "
                         "memory), what the allocator reserved, or what the device shows\n{}{}spread of measured over "
                         "predicted memory: {} where a measured figure of the stack says what its allocator holds,\n{} "
                         "elsewhere (standard deviations; intervals and risks are reckoned with {} and {})\n\n{}{}{}",
                         request.points ? points.text() + "\n" : "",
                         error_table(sets, {"mean", "median", "worst", "signed mean"}, "none"),
                         percent(doubt.spread(true, true)), percent(doubt.spread(false, true)),
                         percent(MemoryDoubt::shipped().spread(true, true)),
                         percent(MemoryDoubt::shipped().spread(false, true)), verdicts,
                         request.points ? refused_although_ran(all) : "", refused),
             sets);
  return pass ? code : kFailsLimit;
}

}  // namespace trainyard
