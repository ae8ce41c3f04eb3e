#include "models/fitted/measured_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/reading/document.hpp"
#include "sim/process/output.hpp"

namespace trainyard {

MeasuredTable::MeasuredTable(const std::filesystem::path& path, const std::vector<const char*>& columns,
                             std::string_view first_cell)
    : name_(path.string()), in_(path) {
  if (!in_ || std::filesystem::is_directory(path)) throw UserError(unreadable(path));
  check_input(path);
  do
    if (!next())
      throw UserError(name_ + (first_cell.empty() ? ": empty" : ": no column \"" + std::string(first_cell) + "\""));
  while (!first_cell.empty() && std::ranges::find(cells_, first_cell) == cells_.end());
  header_ = std::exchange(cells_, {});
  header_line_ = line_;
  for (const char* name : columns) column(name);
}

bool MeasuredTable::next() {
  std::string line;
  do {
    if (!std::getline(in_, line)) return false;
    ++line_;
    if (line.ends_with('\r')) line.pop_back();
    if (header_.empty() && line.starts_with('#')) {
      const std::size_t text = line.find_first_not_of("# ");
      if (text != std::string::npos) comment_ += (comment_.empty() ? "" : " ") + line.substr(text);
      line.clear();
    }
  } while (line.empty());
  split(line);
  if (!header_.empty() && cells_.size() != header_.size())
    refuse(fmt::format("{} fields, but the header has {}", cells_.size(), header_.size()));
  return true;
}

void MeasuredTable::split(const std::string& line) {
  cells_.assign(1, "");
  starts_.assign(1, 0);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool twice = line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"';
    if (quoted && twice)
      cells_.back() += line[i++];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted) {
      cells_.emplace_back();
      starts_.push_back(i + 1);
    } else
      cells_.back() += line[i];
  }
  if (quoted) refuse("a quote that is never closed");
}

bool MeasuredTable::has_column(std::string_view name) const {
  return std::ranges::find(header_, name) != header_.end();
}

std::size_t MeasuredTable::column(std::string_view name) const {
  const auto it = std::ranges::find(header_, name);
  if (it == header_.end())
    throw UserError(fmt::format("{}:{}:1: no column \"{}\"{}", name_, header_line_, name, hint(name, header_)));
  return static_cast<std::size_t>(it - header_.begin());
}

double MeasuredTable::number(std::size_t column) const {
  try {
    return parse_number(cells_[column]);
  } catch (const UserError&) {
    refuse(fmt::format("{}: \"{}\" is not a number", header_[column], cells_[column]), column);
  }
}

double MeasuredTable::positive(std::size_t column) const {
  try {
    const double v = parse_number(cells_[column]);
    if (v > 0) return v;
  } catch (const UserError&) {
  }
  refuse(fmt::format("{}: \"{}\" is not a number greater than 0", header_[column], cells_[column]), column);
}

void MeasuredTable::refuse(const std::string& what, std::size_t column) const {
  throw UserError(fmt::format("{}:{}:{}: {}", name_, line_, column < starts_.size() ? starts_[column] + 1 : 1, what));
}

}  // namespace trainyard
