#include "scenarios/running/memory_advice.hpp"

#include <fmt/format.h>

namespace trainyard {

std::string in_words(const std::vector<std::pair<std::string, std::string>>& overrides) {
  std::string text;
  for (const auto& [path, value] : overrides) text += fmt::format("{}{}={}", text.empty() ? "" : " ", path, value);
  return text;
}

}  // namespace trainyard
