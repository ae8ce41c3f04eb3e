#pragma once
#include <string>
#include <vector>

#include "models/reading/figure.hpp"

namespace trainyard {

/// A constant of the catalog's GPUs, attention kernels and stacks that was fitted to measurements.
struct FittedConstant {
  std::string kind;  ///< "gpu", "attention", "stack"
  /// Catalog entries that state the constant, all with the same value; other entries may inherit it from them.
  std::vector<std::string> entries;
  std::string key, value, source;  ///< texts in the file; "fit: " is removed from `source`
  /// `fit kernels`, `fit roofline`, `fit nccl` or `validate horovod --fit` computed it from a table.
  bool by_command = false;

  std::string name() const;  ///< "stack nemo: slowdowns.elementwise", named after its first entry
  /// Returns trials that set the constant to `instead` in each of its entries. If `instead` is empty, they remove it.
  std::vector<FigureTrial> trials(const std::string& instead) const;
};

/// Lists all fitted constants of the catalog, sorted by kind, entry and key.
std::vector<FittedConstant> fitted_constants();

/// Returns the names of an entry, its base, the base of that, and so on; none if the catalog has no such entry.
std::vector<std::string> entry_with_bases(const std::string& kind, const std::string& name);

}  // namespace trainyard
