#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A comma-separated table of measurements (fields may be quoted), read row by row; errors name their place. Lines that begin
/// with '#' before the header say where it is from.
class MeasuredTable {
 public:
  /// Throws UserError where it cannot be read, or has none of these columns.
  explicit MeasuredTable(const std::filesystem::path&, const std::vector<const char*>& columns = {});

  bool next();  ///< the next row that is not blank
  bool has_column(std::string_view name) const;
  /// Throws UserError where there is none of that name.
  std::size_t column(std::string_view name) const;
  /// A cell of the row, by the column's number or its name.
  const std::string& text(std::size_t column) const { return cells_[column]; }
  const std::string& text(std::string_view name) const { return cells_[column(name)]; }
  double positive(std::size_t column) const;
  double positive(std::string_view name) const { return positive(column(name)); }
  /// Throws UserError "file:line:column: what", of a cell of the row, or of its beginning.
  [[noreturn]] void refuse(const std::string& what, std::size_t column = 0) const;
  [[noreturn]] void refuse(const std::string& what, std::string_view name) const { refuse(what, column(name)); }
  const std::vector<std::string>& header() const { return header_; }
  const std::string& name() const { return name_; }
  const std::string& comment() const { return comment_; }  ///< without the marks, lines joined by a space
  int line() const { return line_; }

 private:
  void split(const std::string& line);
  std::string name_, comment_;
  std::ifstream in_;
  int line_ = 0, header_line_ = 0;
  std::vector<std::string> header_, cells_;
  std::vector<std::size_t> starts_;  ///< of the cells, in their line
};

}  // namespace trainyard
