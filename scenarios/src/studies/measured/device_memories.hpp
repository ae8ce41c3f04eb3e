#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/fitted/measured_family.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/measured_run.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"

namespace trainyard {

/// The memory of a measured run as the simulator predicts it.
struct MemoryPrediction {
  std::string id;
  MeasuredRun measured;
  Result::Memory memory;
  std::string fits;     ///< "yes", "at risk" or "no" (`Result::fits_in_words`)
  std::string refused;  ///< why the simulator refuses the run; empty: it predicts it
};

/// A quantity that rows of a family may measure.
struct MemoryQuantity {
  const char* name;
  Bytes MeasuredRun::*measured;
  Bytes Result::Memory::*predicted;
};
/// Returns the quantities: peak of the allocated memory, reserved memory, and memory that the device shows.
const std::vector<MemoryQuantity>& memory_quantities();

struct FamilyMemory : FamilyDescription {
  std::vector<MemoryPrediction> runs;

  /// Returns the errors of a quantity. No value: no run measures it.
  std::optional<ErrorSet> errors(const MemoryQuantity&) const;
};

/// Predicts the memory of every run of these families, in parallel on all processors.
std::vector<FamilyMemory> predict_memories(const std::vector<MeasuredFamily>&);

/// Returns the root mean square of ln(measured / predicted). Each quantity that a family measures has the same weight,
/// whatever its number of runs.
double memory_spread(const std::vector<FamilyMemory>&);

/// Numbers of measured runs by the simulator's verdict: they fit into memory, are at risk, or do not fit.
struct MemoryVerdicts {
  std::size_t runs = 0, yes = 0, at_risk = 0, no = 0;
};
/// Counts the verdicts on the runs that ran out of memory, or on all others.
MemoryVerdicts memory_verdicts(const std::vector<FamilyMemory>&, bool out_of_memory);

}  // namespace trainyard
