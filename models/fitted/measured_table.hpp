#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A comma-separated table of measurements (fields may be quoted), read row by row. Lines that begin with '#' before
/// the header tell the source of the table. Errors name their place.
class MeasuredTable {
 public:
  /// Throws UserError if the file cannot be read or lacks one of these columns. Lines before the first that has the
  /// cell `first_cell` are no part of the table; "": the table begins with the file.
  explicit MeasuredTable(const std::filesystem::path&, const std::vector<const char*>& columns = {},
                         std::string_view first_cell = {});

  bool next();  ///< goes to the next row that is not blank; false: there is none
  bool has_column(std::string_view name) const;
  /// Returns the index of a column. Throws UserError if there is none of that name.
  std::size_t column(std::string_view name) const;
  /// Returns a cell of the current row, by the index or the name of its column.
  const std::string& text(std::size_t column) const { return cells_[column]; }
  const std::string& text(std::string_view name) const { return cells_[column(name)]; }
  /// Return the number in a cell of the current row. Throw UserError with its place if there is none (above 0).
  double number(std::size_t column) const;
  double number(std::string_view name) const { return number(column(name)); }
  double positive(std::size_t column) const;
  double positive(std::string_view name) const { return positive(column(name)); }
  /// Throws UserError "file:line:column: what" at a cell of the current row.
  [[noreturn]] void refuse(const std::string& what, std::size_t column = 0) const;
  [[noreturn]] void refuse(const std::string& what, std::string_view name) const { refuse(what, column(name)); }
  const std::vector<std::string>& header() const { return header_; }
  const std::string& name() const { return name_; }
  /// Returns the comment before the header: its lines without '#', joined by spaces.
  const std::string& comment() const { return comment_; }
  int line() const { return line_; }

 private:
  void split(const std::string& line);
  std::string name_, comment_;
  std::ifstream in_;
  int line_ = 0, header_line_ = 0;
  std::vector<std::string> header_, cells_;
  std::vector<std::size_t> starts_;  ///< positions of the cells in their line
};

}  // namespace trainyard
