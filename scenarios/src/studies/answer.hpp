#pragma once
#include <array>
#include <optional>
#include <vector>

#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// Largest number of simulated splits. If more are possible, so many are chosen at equal distances.
inline constexpr int kMostSplits = 5;

/// Simulates the loop with other numbers of nodes that generate, each with as many data ranks as its other nodes have
/// GPUs for. The scenario's own split is among them. Returns the fastest first, splits that are impossible last. Empty:
/// all GPUs do both, or there is only one split. `own_loop`: the loop with the scenario's own split, null: not simulated yet.
std::vector<PostTrainingSplit> post_training_splits(const Scenario&, const PostTrainingResult* own_loop = nullptr);

/// Parts of the answer besides the step. By default there are none.
struct AnswerOptions {
  SimulateOptions simulation;  ///< options of the step's simulation
  double factor = 0;           ///< speed-up of each class of resources in the what-ifs; 0: no what-ifs
  /// If the plan does not fit: adds the largest sizes that fit, and the changes that would make it fit.
  bool changes = false;
  /// Adds what `explain` shows: the critical path piece by piece, the largest sizes that fit, and the gain from fewer
  /// failures.
  bool reasons = false;
  /// Receives the text that says what is missing if a signal ends the work after the step itself. Null: Interruption is
  /// thrown.
  std::string* unfinished = nullptr;
};

/// Computes the answer to a scenario. Without `reasons`, a step of more than kMostKept operations has neither what-ifs
/// nor the largest sizes that fit, because each of them needs further simulations. A step by packets has no what-ifs.
/// Throws UserError and Interruption.
Answer answer(const Scenario&, const Plan&, const AnswerOptions&);
/// Lays a scenario out and answers it.
Answer answer(const Scenario&, const AnswerOptions& = {});

/// Is a figure of the scenario's hardware a range, since the hardware is only announced?
bool has_announced_ranges(const Scenario&);
/// Simulates the step at the fast and the slow end of these ranges. Returns both times, s, and none inside of `step`, the
/// time that the scenario has. No value: no figure is a range.
std::optional<std::array<double, 2>> announced_step_times(const Scenario&, Seconds step, SimulateOptions = {});

/// Returns the number of operations of the simulated ranks.
double simulated_operations(const Plan&, const Result&);

}  // namespace trainyard
