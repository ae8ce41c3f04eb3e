#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A text table. Columns are as wide as their widest cell (in characters, not bytes) and two spaces apart. The last
/// column is not padded.
struct TextTable {
  std::vector<std::string> head;
  std::vector<bool> right;  ///< for each column: right-aligned; missing: left-aligned
  std::vector<std::vector<std::string>> rows;

  /// Takes the titles of the columns. A ">" before a title makes its column right-aligned.
  TextTable(std::initializer_list<std::string_view> titles = {});
  void add_column(std::string_view title, bool is_right = true);
  /// Returns the table with an indent before each line; as Markdown without the indent if `tables_are_markdown`.
  std::string text(const std::string& indent = "") const;
  /// Returns the table with at most `width` characters a line (not in Markdown). The last column continues below
  /// itself, or below the indent if it is narrow.
  std::string text(const std::string& indent, std::size_t width) const;
};

/// Number of characters of UTF-8 text.
std::size_t characters_of(const std::string&);

/// The lines of a text, broken at spaces so that none has more than `width` characters. The rest of a broken line
/// continues after `indent` spaces. A word that is longer than the rest of a line stays whole.
std::string hanging_lines(const std::string& text, std::size_t width, std::size_t indent);

/// After this call, tables are written as Markdown.
void write_tables_as_markdown();
bool tables_are_markdown();

}  // namespace trainyard
