#include "tools/reports/report_lines.hpp"

#include <fmt/format.h>

namespace trainyard {

bool in_seconds(const Result& r) { return r.step_time >= 10; }

std::string part_of(const Result& r, double seconds) {
  const double v = in_seconds(r) ? seconds : seconds * 1e3;
  if (v >= 99.95) return fmt::format("{:.0f}", v);
  return v >= 9.995 ? fmt::format("{:.1f}", v) : fmt::format("{:.2f}", v);
}

std::string gib(double bytes) { return fmt::format("{:.1f}", bytes / (1U << 30)); }

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
