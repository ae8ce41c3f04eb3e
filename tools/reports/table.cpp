#include "tools/reports/table.hpp"

#include <algorithm>

namespace trainyard {
namespace {

/// Characters of UTF-8 text: all bytes but the continuing ones.
std::size_t characters_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string TextTable::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  const auto measure = [&widths](const std::vector<std::string>& cells) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], characters_of(cells[i]));
  };
  measure(head);
  for (const auto& row : rows) measure(row);

  std::string out;
  const auto put = [&](const std::vector<std::string>& cells) {
    std::string line = indent;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - characters_of(cells[i]), ' ');
      const bool to_right = i < right.size() && right[i];
      if (i > 0) line += "  ";
      line += to_right ? padding + cells[i] : cells[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  if (!head.empty()) put(head);
  for (const auto& row : rows) put(row);
  return out;
}

}  // namespace trainyard
