#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

/// A fitted constant, fitted again.
struct RefittedConstant {
  std::string name;   ///< "stack nemo: slowdowns.elementwise"
  std::string value;  ///< in the catalog
  std::string again;  ///< "": the families that it was fitted to do not tell it
};

/// A family as it is predicted, and by constants that were fitted again.
struct RefittedFamily {
  FamilyPrediction now, again;
  std::vector<RefittedConstant> constants;  ///< without a family: those that its step times depend on
};

/// Their errors, those of steps that are alike together.
std::vector<LeftOutErrors> errors_by_traits(const std::vector<RefittedFamily>&);

struct LeftOutOptions {
  std::vector<std::string> only;  ///< families that are left out, each in turn; empty: all
  int rows_of_family = 8;         ///< to which constants are fitted again, spread evenly over it
};

/// Each of the families left out of the fit in turn.
///
/// The constants that its step times depend on are fitted again to rows of all other families: to log(predicted /
/// measured) of step times, which follow the constants as their derivatives at the catalog's values say (each row is
/// simulated for them). They are expected where the entry has them without its own figure, at that of its base or the
/// reader's default, give or take 30 % (see `refit_constants`); where the other families do not tell a constant, it is left
/// out. The family is then simulated with these. Constants that `fit` writes from tables of kernels and collectives stay.
/// Deterministic.
std::vector<RefittedFamily> leave_out_each(const std::vector<MeasuredFamily>&, const LeftOutOptions& = {});

/// All families by constants that were fitted again to all of them, the same for each. What they do not tell stays.
/// The least mean over the families, each once, of their mean |predicted / measured - 1|, within 8 % of the catalog's
/// constants, along the derivatives of step times there; so a constant may be fitted again from what this gives.
std::vector<RefittedFamily> refit_to_all(const std::vector<MeasuredFamily>&);

}  // namespace trainyard
