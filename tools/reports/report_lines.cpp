#include "tools/reports/report_lines.hpp"

#include <fmt/format.h>

namespace trainyard {

std::string report_label(const char* name) { return fmt::format("{:<11}", name); }

std::string wrapped(const std::string& first, const std::vector<std::string>& words, const std::string& separator) {
  constexpr std::size_t width = 118;
  std::string text, line = first;
  bool fresh = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? separator : "");
    if (!fresh && line.size() + word.size() > width) {
      text += line.erase(line.find_last_not_of(' ') + 1) + "\n";
      line = report_label("");
    }
    line += word + (word.ends_with(" ") ? "" : " ");
    fresh = false;
  }
  while (line.ends_with(" ")) line.pop_back();
  return text + line + "\n";
}

}  // namespace trainyard
