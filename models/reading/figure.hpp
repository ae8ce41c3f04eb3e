#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Origin of a figure of the catalog, as `show` and the trust line print it.
struct FigureSource {
  std::string figure;  ///< dotted path, "gpu a100-sxm4-80gb: memory_bandwidth"
  std::string value;   ///< as it was written
  std::string source;  ///< the full text of the source
  bool unverified = false;
  /// Ends of the range of a figure of announced hardware, the slowest hardware's first. Empty: the figure is no range.
  std::vector<std::string> range = {};
};
using Sources = std::vector<FigureSource>;

/// A trial value for a figure of the catalog. It replaces the value in the entry's file.
struct FigureTrial {
  std::string kind, entry;  ///< entry whose file states the figure: "stack", "nemo"
  std::string key;          ///< dotted path: "slowdowns.elementwise"; if it is to be removed, this may be a map
  std::string value;        ///< as a file would write it; "": removes the figure
};

/// Trial values with which this thread reads catalog entries until the object is destroyed. Used to refit constants.
/// Trial values of outer objects do not apply meanwhile.
class FigureTrials {
 public:
  explicit FigureTrials(std::vector<FigureTrial>);
  ~FigureTrials();
  FigureTrials(const FigureTrials&) = delete;

 private:
  std::vector<FigureTrial> outer_trials_;
};

/// Applies the trial values of this thread to an entry that was read from its file.
void apply_trials(Node& entry, std::string_view kind, std::string_view name);

}  // namespace trainyard
