#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/fitted/measured_family.hpp"
#include "models/reading/figure.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/measured_run.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"

namespace trainyard {

/// A memory of the fullest rank that runs of a family may measure.
struct MemoryQuantity {
  const char* name;
  bool outside;  ///< includes what allocator and libraries add to what the step allocates
  Bytes MeasuredRun::*measured;
  Bytes Result::Memory::*predicted;
};
/// Returns the quantities: peak of the allocated memory, reserved memory, and memory that the device shows.
const std::vector<MemoryQuantity>& memory_quantities();

/// A measured run and its prediction.
struct RunPrediction {
  std::string id, attention;  ///< `attention`: name of the attention kernel; "": the GPU's own rates
  StepProfile profile;
  MeasuredRun measured;
  double step_time = 0;                 ///< s
  StepDoubt doubt;                      ///< doubt of `step_time`; it has no spread if nobody asks for intervals
  Result::Memory memory;                ///< memory of the fullest rank
  std::vector<double> memory_interval;  ///< 80 % interval of the memory that the device shows, bytes
  double mfu = 0, mfu_with_attention = 0;
  /// Predicted and measured value of each figure, in the order of the family; a measured value of 0: not measured.
  std::vector<std::pair<double, double>> figures;
  bool calibrates = false;  ///< a constant is calibrated with this run
  int devices = 1;
  FlopsPerSecond peak;               ///< peak of a device in the plan's precision
  double tokens = 1;                 ///< tokens of a step; if samples have no tokens, samples of a step
  double samples = 0;                ///< samples per step and device
  bool fits = true;                  ///< the predicted run fits into memory, as the measured one did
  std::string fits_in_words{"yes"};  ///< "yes", "at risk" or "no" (`Result::fits_in_words`)
  double risk = 0;                   ///< probability with which the predicted run runs out of memory
  /// Index in the family of the run to which this run's efficiency is relative; its own index: there is none.
  std::size_t scaled_from = 0;
  std::string refused;  ///< why the simulator refuses the run; empty: it predicts it

  /// Returns the predicted and the published MFU, with the FLOPs that the source counts. If the source publishes no
  /// rate in FLOP/s, both count 6 FLOP per parameter and token.
  std::pair<double, double> mfus() const;
  const std::string& trait(StepTrait trait) const { return profile.trait(trait); }
};

struct FamilyPrediction : FamilyDescription {
  std::vector<RunPrediction> runs;

  std::size_t refused_runs() const;
  /// Return the errors of one quantity. No value: nothing is predicted, or the quantity was not measured.
  std::optional<ErrorSet> step_times() const, memories(const MemoryQuantity&) const;
  /// Returns the errors of scaling efficiency: samples/s per device, relative to those of the run `scaled_from`.
  std::optional<ErrorSet> efficiencies() const;
  std::optional<ErrorSet> mfus() const;
  /// Returns the errors of the family's figure with this index, over the runs that calibrate no constant.
  std::optional<ErrorSet> figure(std::size_t) const;
  std::string filled_note() const;  ///< the family's note, with the mean ratio of the calibrating runs
  /// Return true if all errors, or all errors of memory, are within their limits.
  bool within_limits() const, within_memory_limits() const;

 private:
  template <class Values>
  std::optional<ErrorSet> errors(const std::string& what, bool shares, const Values&) const;
};

/// Reads families of measured runs. `places`: files (FILE.yaml), or folders of scenarios/measured such as "training" or
/// "mlperf", whose families are sorted by name. `names`: names of families to read; empty: all. Throws UserError for an
/// unknown name.
std::vector<MeasuredFamily> measured_families(const std::vector<std::string>& places,
                                              const std::vector<std::string>& names = {});

/// Returns the errors of step times, grouped by software stack and GPU.
std::vector<ErrorSet> errors_by_stack(const std::vector<FamilyPrediction>&);

/// Predicts every run of these families, in parallel on all processors. If a signal ends the work, returns the families
/// that are done, and says in `unfinished` how many they are. Throws Interruption if none is done, or `unfinished` is
/// null. `intervals`: also finds the 80 % intervals, which need each step's critical path.
std::vector<FamilyPrediction> predict_families(const std::vector<MeasuredFamily>&, std::string* unfinished = nullptr,
                                               bool intervals = false);

/// A row of a family, and the catalog figures that its prediction replaces.
struct RunOfFamily {
  std::size_t family = 0, row = 0;  ///< index of the family, and index of the row in the family
  std::vector<FigureTrial> trials = {};
  bool critical_path = false;  ///< find the critical path, whose shares the profile then has
};
/// Predicts these runs in parallel and returns them in this order. `what`: the runs' name in the progress line.
std::vector<RunPrediction> predict_runs(const std::vector<MeasuredFamily>&, const std::vector<RunOfFamily>&,
                                        const std::string& what);

}  // namespace trainyard
