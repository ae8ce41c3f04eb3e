#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

/// A measured step of a post-training loop, and its prediction.
struct LoopRun {
  std::string id, model, release;
  PostTrainingResult predicted;
  double tensors = 0;  ///< published ones of the policy
  double samples = 0;  ///< those of a step
  bool has_own_nodes = false, one_step_off = false;
  double measured = 0;  ///< s
};

/// The constants of a loop that are fitted to measured steps.
struct LoopConstants {
  double loop_sample = 0, reload = 0;             ///< s; a sample of a step, and a colocated step
  double colocated_tensor = 0, apart_tensor = 0;  ///< host times of the transfer of a tensor of the policy, s

  /// Returns the step time of a run with these constants instead of its own.
  double step_time(const LoopRun&) const;
};

/// The errors of measured loops and of measured transfers of weights.
struct PostTrainingErrors {
  std::vector<LoopRun> runs;
  LoopConstants catalog, fitted;  ///< the catalog's constants, and those of a new fit to all runs
  ErrorSet in_sample, model_left_out, release_left_out;
  /// Training halves of the steps one step off that are predicted to wait for training: the rest of the measured step is
  /// the loop and the transfer of weights, with constants that are fitted without the model.
  ErrorSet training_half;
  ErrorLimits limits;
  std::string source;
  /// Transfers of the catalog against updates by verl.
  std::vector<ErrorSet> compared_transfers;
  std::vector<ErrorSet> transfers;  ///< two sets for each transfer: in sample, and with each model left out
};

/// Returns the constants with the smallest mean relative error over these runs, by a search along each constant and
/// each pair of them with shrinking steps.
LoopConstants fit_loop(const std::vector<LoopRun>&, LoopConstants start);

/// A measured step of a loop, and its prediction with constants that were fitted without its model.
struct LeftOutLoop {
  std::string id, model;
  double predicted = 0, measured = 0;  ///< s
};

/// The distance between measured steps of loops and predictions with constants that were fitted without their model.
class LoopDoubt {
 public:
  explicit LoopDoubt(std::vector<LeftOutLoop> rows) : rows_(std::move(rows)) {}
  /// Reads scenarios/measured/tables/left_out_post_training.csv, once.
  static const LoopDoubt& shipped();

  const std::vector<LeftOutLoop>& rows() const { return rows_; }
  int models() const;
  /// Returns the factor within which a further step lies with this probability (0 to 1): the n-th smallest factor of
  /// the measured steps, with n = probability · (steps + 1), rounded up but at most their number.
  double factor(double probability) const;
  /// Returns the factor that a further step exceeds with a probability of 1 − `confidence` (0.5 to 1).
  double one_sided_factor(double confidence) const { return confidence > 0.5 ? factor(2 * confidence - 1) : 1; }
  /// Returns the number of steps that lie within the factor that the steps of the other models have for `probability`.
  int covered_steps(double probability) const;
  /// Returns the table that `validate post-training --csv FILE` writes.
  std::string csv() const;

 private:
  std::vector<LeftOutLoop> rows_;
};

/// Returns the largest confidence at which the measured steps can show that a loop reaches a rate of samples.
double most_loop_confidence();

/// Returns the parts of a loop that no measured loop has, in words, separated by commas. Empty: there are none.
std::string unmeasured_loop_parts(const Scenario&);

/// The largest part of a measured step that the fitted times of a sample of the loop and of a reload take.
inline constexpr double kMostFittedShare = 0.345;

/// Returns the part of the step that these two times take.
double fitted_share(const PostTrainingResult&);

/// Adds the intervals of step time and samples per second. A larger part in the fitted times than that of all measured
/// steps is named as unmeasured: one error of such a time is then a larger one of the step.
void add_loop_interval(const Scenario&, PostTrainingResult&);

/// Ends the name of a measured transfer from which alone a constant of its entry comes.
inline constexpr const char* kFittedTransfer = ", fitted";

/// The time that a running sequence adds to a step of an engine, fitted to throughputs at full load.
struct SequenceFit {
  /// That of the catalog, and the one with the smallest mean error. [0]: networks without experts, [1]: with experts.
  std::array<Seconds, 2> catalog, fitted;
  ErrorSet left_out;  ///< each throughput with the time that is fitted without its model
};

/// Fits it to the first figure of a family. An engine spends it once for each token, so that no run is simulated again.
SequenceFit fit_sequence_time(const MeasuredFamily&, const FamilyPrediction&);

/// Predicts the runs of scenarios/measured/post-training, and fits the constants with each model and release left out.
PostTrainingErrors post_training_errors();

}  // namespace trainyard
