#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "models/fitted/measured_family.hpp"
#include "scenarios/src/planning/device_memory.hpp"
#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

/// The memory of a measured run as the simulator predicts it.
struct MemoryPrediction {
  std::string id;
  MeasuredRun measured;
  Result::Memory memory;
  bool reserve_measured = false;  ///< see `has_measured_reserve`
  double reserve_spread = 0;      ///< `SoftwareStack::reserved_memory_spread`
  std::string fits;               ///< "yes", "at risk" or "no" (`Result::fits_in_words`)
  std::string refused;            ///< why the simulator refuses the run; empty: it predicts it
};

struct FamilyMemory : FamilyDescription {
  std::vector<MemoryPrediction> runs;

  /// Returns the errors of a quantity. No value: no run measures it.
  std::optional<ErrorSet> errors(const MemoryQuantity&) const;
  /// Returns the name of the source: its words up to the first comma, semicolon or parenthesis.
  std::string source_name() const;
};

/// Returns the families of measured training runs whose memory is predicted, only those of these names if there are any.
/// Throws UserError for a name that there is not.
std::vector<MeasuredFamily> memory_families(const std::vector<std::string>& names = {});
/// Predicts the memory of the runs of these families, in parallel on all processors. `most_of_family`: of a family with
/// more runs, so many that are spread evenly over it.
std::vector<FamilyMemory> predict_memories(const std::vector<MeasuredFamily>&,
                                           std::size_t most_of_family = std::numeric_limits<std::size_t>::max());

/// Fits the doubt to measured memories, by the greatest likelihood. Each quantity that a family measures has the same
/// weight, whatever its number of runs, and the prior of each term that of one such quantity. `left_out`: name of a
/// source whose rows the fit does not use; "": none. The priors were chosen with these rows in sight. Deterministic.
MemoryDoubt fit_memory_doubt(const std::vector<FamilyMemory>&, const std::string& left_out = "");
/// Returns the text of scenarios/measured/tables/memory_doubt.csv.
std::string memory_doubt_csv(const MemoryDoubt&);
/// Leaves out each source in turn, fits the doubt to the others and judges its intervals by the memories of that source.
std::vector<CoveredRow> cover_each_memory(const std::vector<FamilyMemory>&);

/// The largest share of the measured runs that ran whose verdict may be "no".
inline constexpr double kMostRefused = 0.02;
/// Numbers of measured runs by the simulator's verdict: they fit into memory, are at risk, or do not fit.
struct MemoryVerdicts {
  std::size_t runs = 0, yes = 0, at_risk = 0, no = 0;
};
/// Counts the verdicts on the runs that ran out of memory, or on all others. `left_out`: the verdicts follow from the
/// doubt that is fitted without the source of the run.
MemoryVerdicts memory_verdicts(const std::vector<FamilyMemory>&, bool out_of_memory, bool left_out = false);

}  // namespace trainyard
