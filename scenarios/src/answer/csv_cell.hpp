#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trainyard {

/// Returns a text as a cell of a CSV file (RFC 4180). A text that a spreadsheet would run as a formula, even in quotes,
/// gets an apostrophe in front. A number stays a number.
std::string csv_cell(std::string text);

/// Returns a line of a CSV file with the values of these keys in a JSON object. A missing key is an empty cell.
std::string csv_line(const nlohmann::ordered_json& object, const std::vector<std::string>& keys);

}  // namespace trainyard
