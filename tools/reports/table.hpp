#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// Text in columns as wide as their widest cell (counted in characters, not bytes), two spaces apart, right-aligned
/// where `right` says so; the last column is not padded.
struct TextTable {
  std::vector<std::string> head;
  std::vector<bool> right = {};  ///< by column; missing: left
  std::vector<std::vector<std::string>> rows = {};

  /// Of Markdown where that was asked for: indents are left out, and a head stands above each.
  std::string text(const std::string& indent = "") const;
};

/// Characters of UTF-8 text.
std::size_t characters_of(const std::string&);

/// From then on tables are Markdown's.
void write_tables_as_markdown();
bool tables_are_markdown();

}  // namespace trainyard
