#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Something that people ask for and that is not modelled, with the nearest thing that is.
struct NotModelled {
  const char* what;
  const char* path;                  ///< the field of a scenario that would say it
  std::vector<std::string> words;    ///< how it is said there
  std::vector<std::string> nearest;  ///< names to say instead; of models those of `model_type` and of the catalog
};

/// All of them: `trainyard help limits` and the README list these, and refusals offer their nearest.
const std::vector<NotModelled>& not_modelled();

/// What to say instead of such a word where `names` are legal: the nearest that is among them.
std::optional<std::string> nearest_modelled(std::string_view word, const std::vector<std::string>& names);

}  // namespace trainyard
