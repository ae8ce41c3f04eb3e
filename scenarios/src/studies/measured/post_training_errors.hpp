#pragma once
#include <string>
#include <vector>

#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"

namespace trainyard {

/// A measured step of a post-training loop, and its prediction.
struct LoopRun {
  std::string id, model, release;
  PostTrainingResult predicted;
  bool has_own_nodes = false, one_step_off = false;
  double measured = 0;  ///< s
};

/// The constants of a loop that are fitted to measured steps.
struct LoopConstants {
  double loop = 0, reload = 0;                ///< s
  double colocated_rate = 0, apart_rate = 0;  ///< B/s of the policy

  /// Returns the step time of a run with these constants instead of its own.
  double step_time(const LoopRun&) const;
};

/// The errors of measured loops and of measured transfers of weights.
struct PostTrainingErrors {
  std::vector<LoopRun> runs;
  LoopConstants catalog, fitted;  ///< the catalog's, and those that a new fit to all runs gives
  ErrorSet in_sample, model_left_out, release_left_out;
  ErrorLimits limits;
  std::string source;
  std::vector<ErrorSet> transfers;  ///< indexed by transfer of the catalog, in sample, and with each model left out
};

/// Returns the constants with the smallest mean relative error over these runs, by a search along each constant and
/// each pair of them with shrinking steps. A rate of weights that takes less than a tenth of every step is not fitted:
/// it is that of an adapter of 400 Gbit/s.
LoopConstants fit_loop(const std::vector<LoopRun>&, LoopConstants start);

/// Predicts the runs of scenarios/measured/post-training, and fits the constants with each model and release left out.
PostTrainingErrors post_training_errors();

}  // namespace trainyard
