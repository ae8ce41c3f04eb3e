#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "models/reading/figure_trial.hpp"

namespace trainyard {

/// A constant of the catalog's GPUs, attention kernels and stacks that was fitted to measurements.
struct FittedConstant {
  std::string kind;  ///< "gpu", "attention", "stack"
  /// Catalog entries that state it, all with the same value; other entries may build on these.
  std::vector<std::string> entries;
  std::string key, value, source;  ///< texts in the file; `source` without "fit: "
  /// `fit kernels`, `fit roofline`, `fit nccl` or `validate horovod --fit` computed it from a table.
  bool by_command = false;

  std::string name() const;  ///< "stack nemo: slowdowns.elementwise", named after its first entry
  /// Returns trials that set the value `instead` in each of its entries. Empty: trials that remove it from the entries.
  std::vector<FigureTrial> trials(const std::string& instead) const;
};

/// Lists all fitted constants of the catalog, sorted by kind, entry and key.
std::vector<FittedConstant> fitted_constants();

/// Returns an entry and its base entries; empty if the catalog has no such entry.
std::vector<std::string> entry_with_bases(const std::string& kind, const std::string& name);

/// The error log(predicted / measured) of one measured row with the current constants, and its derivatives.
struct ConstantRow {
  std::size_t family = 0;
  double error = 0;
  std::vector<double> slope;  ///< d error / d log(constant)
};

/// The result of the refit of one constant.
struct ConstantChange {
  bool is_determined = false;  ///< the rows determine it; false: it keeps its prior value
  double log = 0;              ///< change of its logarithm
};

/// Standard deviation of the prior of a constant's logarithm.
constexpr double kConstantSpread = 0.3;

/// Refits constants to measured rows whose errors depend linearly on the logarithms of the constants. `without`: for
/// each constant, the change that has the same effect as leaving it out; it is the mean of the prior. Returns the most
/// probable changes. A row has an error of 3 %, and all rows of a family share a further error of 3 %. Errors above
/// twice that count linearly instead of squared. Rows determine a constant if they reduce its uncertainty by at least a
/// tenth.
std::vector<ConstantChange> refit_constants(const std::vector<double>& without, const std::vector<ConstantRow>& rows);

}  // namespace trainyard
