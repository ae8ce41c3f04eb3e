#include "scenarios/src/answer/csv_cell.hpp"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "sim/json_text.hpp"

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

std::string csv_line(const nlohmann::ordered_json& object, const std::vector<std::string>& keys) {
  std::string line;
  for (const std::string& key : keys) {
    const auto value = object.find(key);
    if (&key != &keys.front()) line += ',';
    if (value != object.end()) line += value->is_string() ? csv_cell(value->get<std::string>()) : json_text(*value);
  }
  return line + "\n";
}

}  // namespace trainyard
