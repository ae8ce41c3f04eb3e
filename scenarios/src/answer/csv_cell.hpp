#pragma once
#include <string>

namespace trainyard {

/// Returns a text as a cell of a CSV file (RFC 4180). A text that a spreadsheet would run as a formula, even in quotes,
/// gets an apostrophe in front. A number stays a number.
std::string csv_cell(std::string text);

}  // namespace trainyard
