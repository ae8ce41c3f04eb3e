#pragma once
#include <functional>

#include "scenarios/src/answer/learn_result.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

struct LearnOptions {
  int first_events = 0;  ///< how many gradients and updates of the beginning are kept
  bool noise = true;     ///< the gradient noise scale is measured at every look
  bool progress = false;
  bool saves = false;  ///< the checkpoint that the scenario asks for
  /// `learn` gives what was known at the last look where it is interrupted, and has `ended` "interrupted".
  bool partial = false;
  std::function<void(const LearnResult&)> look = {};  ///< called at each look, in the process that learns
};

/// The training of `learn` on the programs of the scenario's plan. Throws
/// UserError for a checkpoint or samples that are not as they should be.
LearnResult learn_here(const Scenario&, const Plan&, const LearnOptions& = {});
/// The same, and what is known when it is interrupted. Of the task noise-scale the step is simulated and the rest is a formula.
LearnResult learn(const Scenario&, const LearnOptions& = {});

}  // namespace trainyard
