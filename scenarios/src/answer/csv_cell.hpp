#pragma once
#include <string>

namespace trainyard {

/// A text as a cell of a CSV file. A text that a spreadsheet would run as a formula, which it does whether it is in quotes
/// or not, becomes a text by an apostrophe; then RFC 4180. A number stays one.
std::string csv_cell(std::string text);

}  // namespace trainyard
