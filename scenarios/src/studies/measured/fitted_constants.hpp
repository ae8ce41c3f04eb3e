#pragma once
#include <string>
#include <vector>

#include "models/reading/figure_trial.hpp"

namespace trainyard {

/// A constant of the catalog's GPUs, attention kernels and stacks that was fitted to measurements.
struct FittedConstant {
  std::string kind;                  ///< "gpu", "attention", "stack"
  std::vector<std::string> entries;  ///< whose files state it, each alike; others may lie on these
  std::string key, value, source;    ///< as in the file; the source without "fit: "
  bool by_command =
      false;  ///< written by `fit kernels`, `fit roofline`, `fit nccl` or `validate horovod --fit` from a table

  std::string name() const;  ///< "stack nemo: slowdowns.elementwise", by its first entry
  /// With that value in each of its files; "": as if they did not say it.
  std::vector<FigureTrial> trials(const std::string& instead) const;
};

/// All of them, by kind, entry and key.
std::vector<FittedConstant> fitted_constants();

/// The entry and those that it lies on. Of what is no entry of the catalog: none.
std::vector<std::string> entry_with_bases(const std::string& kind, const std::string& name);

}  // namespace trainyard
