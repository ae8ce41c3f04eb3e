#pragma once
#include <functional>

#include "scenarios/src/answer/learn_result.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

struct LearnOptions {
  int first_events = 0;  ///< number of gradients and updates that are kept from the beginning of the training
  bool noise = true;     ///< whether to measure the gradient noise scale at every evaluation
  bool progress = false;
  bool saves = false;  ///< whether to write the file of weights that the scenario names
  /// If true, an interrupted `learn` returns the result of its last evaluation, with `ended` "interrupted".
  bool partial = false;
  std::function<void(const LearnResult&)> look = {};  ///< called at each evaluation, in the process that learns
};

/// Runs the training of the section `learn` on the programs of the scenario's plan. Handles interruptions (see
/// LearnOptions::partial). For the task noise-scale, it simulates the step and computes the rest by a formula. Throws
/// UserError for a wrong file of weights or of samples.
LearnResult learn(const Scenario&, const LearnOptions& = {});

}  // namespace trainyard
