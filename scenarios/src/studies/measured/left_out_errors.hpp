#pragma once
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// The sets of measured runs to which constants are fitted, and the one to which none is.
inline constexpr std::array kFittedSets{"training", "training-2026", "mlperf", "mlperf-v6"};
inline constexpr const char* kUnfittedSet = "outside-the-fit";

/// The properties of a step by which errors are grouped.
enum class StepTrait : std::uint8_t { network, stack, gpu, precision };
constexpr int kStepTraits = 4;

/// The kind of network ("dense decoders", "mixtures of experts"), stack, GPU and precision of a step. The stack is that
/// from which an anchored one started.
using StepTraits = std::array<std::string, kStepTraits>;
StepTraits traits_of(const Scenario&);
inline const std::string& trait_of(const StepTraits& traits, StepTrait trait) {
  return traits[static_cast<std::size_t>(trait)];
}

/// The elements of kPathParts.
enum class PathPart : std::uint8_t { memory, node, network };
/// Returns the shares of the critical path. If it was not found, returns the exposed exchanges of the breakdown as those
/// between nodes, or in the node if there is only one.
PartShares path_shares(const Scenario&, const Result&);

/// The properties of a predicted step that decide how far it may be from a measured one.
struct StepProfile {
  StepTraits traits;
  const std::string& trait(StepTrait t) const { return trait_of(traits, t); }
  double devices = 1;
  PartShares path{};  ///< shares of the critical path
  double on_path(PathPart part) const { return path[static_cast<std::size_t>(part)]; }
  /// Time in which a slow host would launch the step's kernels, as a multiple of the step.
  double slow_host = 0;
  bool other_vendor = false;  ///< the devices are not GPUs of NVIDIA
  /// The parts of the step that no measured step has, in words: gradients that are compressed or not all-reduced, an
  /// offload, nodes of several types, an announced chip (`is_announced`), or products in MXFP4 or a 6-bit format.
  std::set<std::string> unmeasured_parts;
  bool experts = false;      ///< the network is a mixture of experts
  bool wide_tensor = false;  ///< a tensor group crosses nodes, or its GPUs share neither an NVSwitch nor a torus
};
/// Returns true if a source says that the chip is only announced, so that its figures are preliminary.
bool is_announced(const Gpu&);
StepProfile profile_of(const Scenario&, double step_time);
StepProfile profile_of(const Scenario&, const Result&);

/// A measured step, and the errors of its prediction as ln(predicted / measured).
struct LeftOutStep {
  std::string set;  ///< "training", "mlperf", or a later one
  std::string family, row;
  std::string source;   ///< who published it ("megatron-bridge"); families of one source have errors in common
  StepProfile profile;  ///< profile of the prediction without the family
  double fitted = 0;    ///< error with the catalog's constants, some of which are fitted to this step
  double left_out = 0;  ///< error with constants that were fitted without the family
};

/// Returns the table that `validate SET --left-out --csv FILE` writes.
std::string left_out_csv(const std::string& set, const std::vector<LeftOutStep>&);
/// Reads the steps of the shipped tables (scenarios/measured/tables/left_out_SET.csv), once.
const std::vector<LeftOutStep>& kept_left_out_steps();

/// Errors of the step times of a family's runs with equal traits, as fractions.
struct LeftOutErrors {
  std::string set, family;
  StepTraits traits;
  int steps = 0;
  double fitted = 0;               ///< mean error with the catalog's constants
  double left_out = 0, worst = 0;  ///< mean and largest error with constants that were fitted without the family
};
std::vector<LeftOutErrors> errors_by_traits(const std::vector<LeftOutStep>&);

/// The measured steps that are nearest to a scenario's step. They share its kind of network (or both are transformers)
/// and its stack or its GPU. Of such steps, the nearest share the largest number of traits.
struct NearestSteps {
  std::vector<LeftOutErrors> errors;       ///< empty: no step is near
  std::array<bool, kStepTraits> shared{};  ///< for each trait: all these steps have the scenario's value
  std::array<bool, kStepTraits> seen{};    ///< for each trait: some measured step has the scenario's value
};
NearestSteps nearest_steps(const StepTraits&, const std::vector<LeftOutErrors>&);

}  // namespace trainyard
