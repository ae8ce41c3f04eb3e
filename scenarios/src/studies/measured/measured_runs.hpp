#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/figure_trial.hpp"
#include "scenarios/src/reading/measured_family.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"

namespace trainyard {

/// A measured run beside what the simulator gives for it.
struct RunPrediction {
  std::string id, attention;  ///< attention: its kernel; "": the GPU's own rates
  StepTraits traits;          ///< what tells the step apart
  MeasuredRun measured;
  double step_time = 0;                         ///< s
  double peak_memory = 0, reserved_memory = 0;  ///< bytes of the fullest rank
  double mfu = 0, mfu_with_attention = 0;
  /// Those of the family, in its order: predicted and measured, 0 where it was not.
  std::vector<std::pair<double, double>> figures;
  bool calibrates = false;  ///< a constant
  int devices = 1;
  FlopsPerSecond peak;          ///< of a device, in the precision of the plan
  double tokens = 1;            ///< of a step; samples, where those have none
  double samples = 0;           ///< of a step and device
  bool fits = true;             ///< as predicted; the run did
  std::size_t scaled_from = 0;  ///< the run, of the family, that its efficiency is reckoned from; its own: none
  std::string refused;          ///< why the simulator does not predict it, else empty

  /// What the predicted and the published rate are of the peak, as the source counts; of tokens, by 6 FLOP a parameter.
  std::pair<double, double> mfus() const;
  const std::string& trait(StepTrait trait) const { return traits[static_cast<std::size_t>(trait)]; }
};

struct FamilyPrediction : FamilyDescription {
  std::vector<RunPrediction> runs;

  std::size_t refused() const;
  /// Empty: nothing predicted, or nothing of it measured.
  std::optional<ErrorSet> step_times() const, peak_memories() const, reserved_memories() const;
  /// Samples a second and device, over those of the run that it is scaled from.
  std::optional<ErrorSet> efficiencies() const;
  std::optional<ErrorSet> mfus() const;
  /// A figure of the answer, by its number; of the runs that calibrate no constant.
  std::optional<ErrorSet> figure(std::size_t) const;
  std::string filled_note() const;  ///< with its ratio
  /// Within the limits of all these, or of memory alone.
  bool within_limits() const, within_memory_limits() const;

 private:
  template <class Values>
  std::optional<ErrorSet> errors(const std::string& what, bool shares, const Values&) const;
};

/// The family of a file (FILE.yaml), or those of a folder of scenarios/measured, as training or mlperf, by name; `only`:
/// those, or all if it is empty. Throws UserError for a name that is not there.
std::vector<MeasuredFamily> measured_families(const std::string& where, const std::vector<std::string>& only);

/// Those of a folder that have memory measured.
std::vector<MeasuredFamily> families_with_memory(const std::string& folder);

/// Errors of step times by software stack and GPU.
std::vector<ErrorSet> errors_by_stack(const std::vector<FamilyPrediction>&);

/// Every run of them, simulated side by side on the processors there are.
std::vector<FamilyPrediction> predict_families(const std::vector<MeasuredFamily>&);

/// A row of a family, and figures of the catalog that are tried for it.
struct RunOfFamily {
  std::size_t family = 0, row = 0;  ///< by their numbers
  std::vector<FigureTrial> trials = {};
};
/// These runs in their order, simulated side by side. `what` they are, for the line that shows progress.
std::vector<RunPrediction> predict_runs(const std::vector<MeasuredFamily>&, const std::vector<RunOfFamily>&,
                                        const std::string& what);

}  // namespace trainyard
