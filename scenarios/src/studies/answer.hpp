#pragma once
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// Parts of the answer besides the step. By default there are none.
struct AnswerOptions {
  SimulateOptions simulation;  ///< options of the step's simulation
  double factor = 0;           ///< speed-up of each class of resources in the what-ifs; 0: no what-ifs
  /// If the plan does not fit: adds the largest sizes that fit, and the changes that would make it fit.
  bool changes = false;
  /// Adds what `explain` shows: the critical path piece by piece, the largest sizes that fit, and the gain from fewer
  /// failures.
  bool reasons = false;
};

/// Computes the answer to a scenario. Without `reasons`, a step of more than kMostKept operations has neither what-ifs
/// nor the largest sizes that fit, because each of them needs further simulations. A step by packets has no what-ifs.
/// Throws UserError.
Answer answer(const Scenario&, const Plan&, const AnswerOptions&);
/// Lays a scenario out and answers it.
Answer answer(const Scenario&, const AnswerOptions& = {});

/// Returns the number of operations of the simulated ranks.
double simulated_operations(const Plan&, const Result&);

}  // namespace trainyard
