#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

/// A fitted constant and its refitted value.
struct RefittedConstant {
  std::string name;      ///< "stack nemo: slowdowns.elementwise"
  std::string value;     ///< value in the catalog
  std::string refitted;  ///< refitted value; "": the families of the fit do not determine it
};

/// A family predicted with the catalog's constants (`now`) and with refitted constants (`refitted`).
struct RefittedFamily {
  FamilyPrediction now, refitted;
  /// Refitted constants; if the family was left out, those that affect its step times.
  std::vector<RefittedConstant> constants;
};

/// Returns the errors of all steps that have an interval and can be predicted with the catalog's constants and with the
/// refitted ones.
/// Returns the word by which a family's source is known: "megatron-bridge" of "NVIDIA-NeMo/Megatron-Bridge, docs/…".
std::string publisher_of(const std::string& source);
std::vector<LeftOutStep> left_out_steps(const std::string& set, const std::vector<RefittedFamily>&);

struct LeftOutOptions {
  std::vector<std::string> families;  ///< families to leave out in turn; empty: all
  int rows_of_family = 8;             ///< rows per family that the refit uses, spread evenly over it
  bool predicts = true;               ///< predicts the families again; false: constants alone are wanted
};

/// Leaves each family out of the fit in turn and predicts it.
///
/// The constants that affect the family's step times are refitted to rows of all other families. The refit minimizes
/// the errors log(predicted / measured) of step times. These are linearized at the catalog's values, with derivatives
/// from simulations of each row. The prior of a constant is the value that its entry would have without it (that of its
/// base or the reader's default), with a standard deviation of 30 % (see `refit_constants`). A constant that the other
/// families do not determine is removed from the entry. The family is then simulated with these constants. Constants
/// that `fit` writes from tables of kernels and collectives do not change. Deterministic.
std::vector<RefittedFamily> leave_out_each(const std::vector<MeasuredFamily>&, const LeftOutOptions& = {});

/// Predicts families to which no constant was fitted: without them, the constants are those of the catalog.
std::vector<RefittedFamily> predict_unfitted(const std::vector<MeasuredFamily>&);

/// Predicts all families with constants that are refitted to all of them. Constants that they do not determine do not
/// change. The refit minimizes the mean over the families of their mean |predicted / measured - 1|, with the
/// derivatives of step times at the catalog's constants. Constants move by at most 8 %, so the refit may be repeated
/// from its result.
std::vector<RefittedFamily> refit_to_all(const std::vector<MeasuredFamily>&);

}  // namespace trainyard
