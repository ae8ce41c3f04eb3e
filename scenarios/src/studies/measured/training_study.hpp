#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/reading/figure_trial.hpp"
#include "scenarios/src/reading/measured_family.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"

namespace trainyard {

/// A measured run beside what the simulator gives for it.
struct RunPrediction {
  std::string id, stack, gpu, attention;             ///< the kernel of attention; "": the GPU's own rates
  StepTraits traits;                                 ///< what tells the step apart
  double step_time = 0, measured_step_time = 0;      ///< s
  double tokens = 1;                                 ///< of a step; samples, where those have none
  double peak_memory = 0, measured_peak_memory = 0;  ///< bytes of the fullest rank; measured 0: not known
  double reserved_memory = 0, measured_reserved_memory = 0;
  double samples = 0;           ///< of a step and device
  std::size_t scaled_from = 0;  ///< the run, of the family, that its efficiency is reckoned from; its own: none
  bool fits = true;             ///< as predicted; the run did
  std::string refused;          ///< why the simulator does not predict it, else empty
};

struct FamilyPrediction {
  std::string name;
  MeasuredLimits limits;
  std::vector<RunPrediction> runs;

  std::size_t refused() const;
  /// Empty: nothing predicted, or no memory measured.
  std::optional<ErrorSet> step_times() const, peak_memories() const, reserved_memories() const;
  /// Samples a second and device, over those of the run that it is scaled from.
  std::optional<ErrorSet> efficiencies() const;
  bool within_limits() const, within_memory_limits() const;
};

/// The families of a folder of scenarios/measured, as training or mlperf, by name; `only`: those, or all if it is empty.
/// Throws UserError for a name that is not there.
std::vector<MeasuredFamily> measured_families(const std::string& folder, const std::vector<std::string>& only);

/// Those of a folder that have memory measured.
std::vector<MeasuredFamily> families_with_memory(const std::string& folder);

/// Errors of step times by software stack and GPU.
std::vector<ErrorSet> errors_by_stack(const std::vector<FamilyPrediction>&);

/// Every run of them, simulated side by side on the processors there are.
std::vector<FamilyPrediction> predict_training(const std::vector<MeasuredFamily>&);

/// A row of a family, and figures of the catalog that are tried for it.
struct RunOfFamily {
  std::size_t family = 0, row = 0;  ///< by their numbers
  std::vector<FigureTrial> trials = {};
};
/// These runs in their order, simulated side by side. `what` they are, for the line that shows progress.
std::vector<RunPrediction> predict_runs(const std::vector<MeasuredFamily>&, const std::vector<RunOfFamily>&,
                                        const std::string& what);

}  // namespace trainyard
