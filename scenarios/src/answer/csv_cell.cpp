#include "scenarios/src/answer/csv_cell.hpp"

#include <charconv>
#include <string_view>
#include <system_error>

namespace trainyard {
namespace {

bool is_formula(const std::string& cell) {
  if (cell.empty() || std::string_view("=+-@\t\r").find(cell.front()) == std::string_view::npos) return false;
  double number = 0;
  const char* end = cell.data() + cell.size();
  const auto read = std::from_chars(cell.data() + (cell.front() == '+' ? 1 : 0), end, number);
  return read.ec != std::errc() || read.ptr != end;
}

}  // namespace

std::string csv_cell(std::string text) {
  if (is_formula(text)) text.insert(text.begin(), '\'');
  if (text.find_first_of(",\"\r\n") == std::string::npos && !text.starts_with(' ') && !text.ends_with(' ')) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace trainyard
