#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// The properties of a step by which errors are grouped.
enum class StepTrait : std::uint8_t { network, stack, gpu, precision };
constexpr int kStepTraits = 4;

/// The kind of network ("dense decoders", "mixtures of experts"), stack, GPU and precision of a step.
using StepTraits = std::array<std::string, kStepTraits>;
StepTraits traits_of(const Scenario&);

/// Errors of the step times of a family's runs with equal traits, as fractions.
struct LeftOutErrors {
  std::string set;  ///< "training", "mlperf", or a later one
  std::string family;
  StepTraits traits;
  int steps = 0;
  double fitted = 0;               ///< mean error with the catalog's constants, some of which are fitted to these steps
  double left_out = 0, worst = 0;  ///< mean and largest error with constants that were fitted without the family
};

/// Returns the table of a set that `validate SET --left-out --csv FILE` writes.
std::string left_out_csv(const std::string& set, const std::vector<LeftOutErrors>&);
/// Reads the shipped tables (scenarios/measured/tables/left_out_SET.csv).
std::vector<LeftOutErrors> kept_left_out_errors();

/// The measured steps that are nearest to a scenario's step. They share its kind of network (or both are transformers),
/// its stack or its GPU, and as many traits as any.
struct NearestSteps {
  std::vector<LeftOutErrors> errors;       ///< empty: no step is near
  std::array<bool, kStepTraits> shared{};  ///< for each trait: all these steps have the scenario's value
  std::array<bool, kStepTraits> seen{};    ///< for each trait: some measured step has the scenario's value
};
NearestSteps nearest_steps(const StepTraits&, const std::vector<LeftOutErrors>&);

}  // namespace trainyard
