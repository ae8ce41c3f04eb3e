#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// A figure of the catalog as it is tried, in place of what the entry's own file says.
struct FigureTrial {
  std::string kind, entry;  ///< "stack", "nemo": the entry whose file states it
  std::string key;          ///< dotted path: "slowdowns.elementwise"; where it is removed, a map too
  std::string value;        ///< as a file would write it; "": as if the file did not say it
};

/// As long as it lives, this thread reads entries of catalogs with these, and with no others. For who refits constants.
class FigureTrials {
 public:
  explicit FigureTrials(std::vector<FigureTrial>);
  ~FigureTrials();
  FigureTrials(const FigureTrials&) = delete;

 private:
  std::vector<FigureTrial> before_;
};

/// An entry as its file has it, with what is tried of it.
void apply_trials(Node& entry, std::string_view kind, std::string_view name);

}  // namespace trainyard
