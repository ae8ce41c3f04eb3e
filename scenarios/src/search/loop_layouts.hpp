#pragma once
#include <functional>
#include <string>

#include "scenarios/src/search/loop_search.hpp"
#include "scenarios/src/search/plan_space.hpp"

namespace trainyard {

/// Options of a search for the layouts of a loop.
struct LoopLayoutOptions {
  /// Values of fields that the user states: of `plan`, as for `PlanSpace`, and of the fields of `loop_axes`.
  std::vector<PlanSpaceOptions::Axis> vary = {};
  double work = 0;                      ///< limit of simulated operations, see `LoopAnswer::work`; 0: kLoopWork
  std::optional<double> headroom = {};  ///< as that of `LoopQuestion`
  std::function<void(const std::string&)> progress = {};
};

/// Limit of the work of a search that states none.
inline constexpr double kLoopWork = 1e9;
/// Operations for which the simulation of one generated answer counts, and times that it does for a whole loop, whose
/// engines are simulated for many steps if they are asynchronous.
inline constexpr double kOperationsOfAnswer = 100, kStepsOfLoop = 20;

/// Returns the fields of `post_training` that a search varies.
const std::vector<std::string>& loop_axes();

/// Finds the fastest loop on the scenario's nodes. It searches the split of the nodes at eighths, the schedules that are
/// no staler than the scenario's, the layouts of engines (`engines_on`) and those of the training half (TrainingHalves).
/// All generation times are simulated. A loop is then simulated as a whole, lowest bound first: generation and training
/// half one after the other, or the longer one if training is one step off, and the transfer of weights without its
/// network. The search ends when no bound is below the best time.
///
/// The bound of an asynchronous loop is the longer one of training half and `least_generation`. The scenario's loop is
/// among the compared ones, unless the user's values leave it out. With limits of work, the answer is the best loop
/// until then. A layout whose training half does not leave the headroom is no answer. Batches and staleness other than
/// the scenario's come after that, each with its best loop. Throws
/// UserError with the place.
LoopAnswer search_loop_layouts(const Scenario&, const LoopLayoutOptions&);

}  // namespace trainyard
