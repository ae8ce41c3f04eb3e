#pragma once
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// What a caller wants to know of a scenario besides its step: nothing else by default.
struct AnswerOptions {
  SimulateOptions simulation;  ///< of the step itself
  double factor = 0;           ///< What-ifs make each class of resources so much faster; 0 asks for none.
  /// For a plan that does not fit: the largest sizes that do, and the changes that would make it fit.
  bool changes = false;
  /// As `explain`: the critical path piece by piece, the largest sizes that fit, and what fewer failures would buy.
  bool reasons = false;
};

/// The answer to a scenario, whoever asks for it. Without `reasons`, a step of more than kMostKept operations has neither
/// what-ifs nor the largest sizes that fit, which would simulate it again and again; a step by packets has no what-ifs.
/// Throws UserError.
Answer answer(const Scenario&, const Plan&, const AnswerOptions&);
/// Lays the scenario out first.
Answer answer(const Scenario&, const AnswerOptions& = {});

/// The operations of the ranks that were simulated.
double simulated_operations(const Plan&, const Result&);

}  // namespace trainyard
