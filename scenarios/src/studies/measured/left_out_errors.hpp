#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// What a step is told apart by where errors are kept.
enum class StepTrait : std::uint8_t { network, stack, gpu, precision };
constexpr int kStepTraits = 4;

/// The kind of network ("dense decoders", "mixtures of experts"), stack, GPU and precision of a step.
using StepTraits = std::array<std::string, kStepTraits>;
StepTraits traits_of(const Scenario&);

/// Errors of the step times of a family's runs that are alike, as shares.
struct LeftOutErrors {
  std::string set;  ///< training or mlperf
  std::string family;
  StepTraits traits;
  int steps = 0;
  double fitted = 0;               ///< mean by the catalog's constants, some of which are fitted to these steps
  double left_out = 0, worst = 0;  ///< mean and largest by constants that were fitted without the family
};

/// The table of a set that `validate SET --left-out --csv FILE` writes.
std::string left_out_csv(const std::string& set, const std::vector<LeftOutErrors>&);
/// The tables as they come along (scenarios/measured/tables/left_out_SET.csv).
std::vector<LeftOutErrors> kept_left_out_errors();

/// The measured steps that are nearest to a scenario's step: they share its kind of network (or at least have a
/// transformer too) and most of the other traits, its stack or its GPU among them.
struct NearestSteps {
  std::vector<LeftOutErrors> errors;       ///< none: no step is near
  std::array<bool, kStepTraits> shared{};  ///< traits of the scenario's step that all of them have
  std::array<bool, kStepTraits> seen{};    ///< traits that a measured step has at all
};
NearestSteps nearest_steps(const StepTraits&, const std::vector<LeftOutErrors>&);

}  // namespace trainyard
