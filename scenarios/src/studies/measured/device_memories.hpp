#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/measured_family.hpp"
#include "scenarios/src/reading/measured_run.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"

namespace trainyard {

/// The memory of a measured run as the simulator predicts it.
struct MemoryPrediction {
  std::string id;
  MeasuredRun measured;
  Result::Memory memory;
  std::string fits;     ///< "yes", "at risk" or "no" (`Result::fits_in_words`)
  std::string refused;  ///< why the simulator does not predict it; empty: it does
};

/// A quantity that rows of a family may measure.
struct MemoryQuantity {
  const char* name;
  Bytes MeasuredRun::*measured;
  Bytes Result::Memory::*predicted;
};
/// Peak of what is allocated, reserved memory, and memory that the device shows.
const std::vector<MemoryQuantity>& memory_quantities();

struct FamilyMemory : FamilyDescription {
  std::vector<MemoryPrediction> runs;

  /// No value: no run measures it.
  std::optional<ErrorSet> errors(const MemoryQuantity&) const;
};

/// Predicts the memory of every run of these families, in parallel on all processors.
std::vector<FamilyMemory> predict_memories(const std::vector<MeasuredFamily>&);

/// Returns the standard deviation of ln(measured / predicted): the root mean square over the quantities that families
/// measure. Each quantity of a family counts once.
double memory_spread(const std::vector<FamilyMemory>&);

/// Numbers of measured runs by what the simulator says of them.
struct MemoryVerdicts {
  std::size_t runs = 0, yes = 0, at_risk = 0, no = 0;
};
/// Counts the runs that ran, or those that ran out of memory.
MemoryVerdicts memory_verdicts(const std::vector<FamilyMemory>&, bool out_of_memory);

}  // namespace trainyard
