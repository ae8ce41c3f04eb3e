#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A key or name that users may look for but that is not modelled, with the nearest names that are modelled.
struct UnmodelledKey {
  std::string what;
  std::string path;                  ///< field of a scenario in which users would name it
  std::vector<std::string> words;    ///< names that users would write there
  std::vector<std::string> nearest;  ///< names to write instead; for models those of `model_type` and of the catalog
};

/// Returns the complete list. `trainyard help limits` and the manual print it, and errors offer the nearest names.
const std::vector<UnmodelledKey>& not_modelled();

/// Returns the legal name to write instead of such a word: the first of its `nearest` that is among `names`. No value:
/// none is.
std::optional<std::string> nearest_modelled(std::string_view word, const std::vector<std::string>& names);

}  // namespace trainyard
