#include "tools/reports/table.hpp"

#include <algorithm>
#include <sstream>

namespace trainyard {
namespace {

bool g_markdown = false;

/// A row of a Markdown table, "| a | b |", with escaped bars.
std::string markdown_row(const std::vector<std::string>& cells, std::size_t columns) {
  std::string line = "|";
  for (std::size_t i = 0; i < columns; ++i) {
    std::string cell;
    for (const char c : i < cells.size() ? cells[i] : std::string())
      cell += c == '|' ? std::string("\\|") : std::string(1, c);
    line += " " + cell + " |";
  }
  return line + "\n";
}

std::string markdown(const TextTable& table) {
  std::size_t columns = table.head.size();
  for (const auto& row : table.rows) columns = std::max(columns, row.size());
  std::string text = markdown_row(table.head, columns) + "|";
  for (std::size_t i = 0; i < columns; ++i) text += i < table.right.size() && table.right[i] ? "---:|" : "---|";
  text += "\n";
  for (const auto& row : table.rows) text += markdown_row(row, columns);
  return text;
}

/// The width of each column in characters.
std::vector<std::size_t> widths_of(const TextTable& table) {
  std::vector<std::size_t> widths;
  const auto measure = [&widths](const std::vector<std::string>& cells) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], characters_of(cells[i]));
  };
  measure(table.head);
  std::ranges::for_each(table.rows, measure);
  return widths;
}

}  // namespace

std::size_t characters_of(const std::string& text) {  // counts the bytes that are no continuation bytes
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string hanging_lines(const std::string& text, std::size_t width, std::size_t indent) {
  std::string broken;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    while (characters_of(line) > width) {
      const std::size_t begin = std::max(line.find_first_not_of(' '), indent);
      std::size_t cut = std::string::npos;
      for (std::size_t space = line.find(' ', begin); space != std::string::npos; space = line.find(' ', space + 1))
        if (cut == std::string::npos || characters_of(line.substr(0, space)) <= width) cut = space;
      const std::size_t rest = cut == std::string::npos ? cut : line.find_first_not_of(' ', cut);
      if (rest == std::string::npos) break;
      broken += line.substr(0, line.find_last_not_of(' ', cut) + 1) + "\n";
      line = std::string(indent, ' ') + line.substr(rest);
    }
    broken += line + "\n";
  }
  return broken;
}

void write_tables_as_markdown() { g_markdown = true; }
bool tables_are_markdown() { return g_markdown; }

TextTable::TextTable(std::initializer_list<std::string_view> titles) {
  for (const std::string_view title : titles) {
    const bool is_right = title.starts_with('>');
    add_column(title.substr(is_right ? 1 : 0), is_right);
  }
}

void TextTable::add_column(std::string_view title, bool is_right) {
  head.emplace_back(title);
  right.push_back(is_right);
}

std::string TextTable::text(const std::string& indent) const {
  if (g_markdown) return markdown(*this);
  const std::vector<std::size_t> widths = widths_of(*this);
  std::string out;
  const auto put = [&](const std::vector<std::string>& cells) {
    std::string line = indent;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - characters_of(cells[i]), ' ');
      const bool to_right = i < right.size() && right[i];
      if (i > 0) line += "  ";
      line += to_right ? padding + cells[i] : cells[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  if (!head.empty()) put(head);
  for (const auto& row : rows) put(row);
  return out;
}

std::string TextTable::text(const std::string& indent, std::size_t width) const {
  if (g_markdown) return text();
  const std::vector<std::size_t> widths = widths_of(*this);
  std::size_t last = indent.size();  // the column at which the last cells begin
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) last += widths[i] + 2;
  constexpr std::size_t least = 40;  // narrower columns would have a word or two a line
  return hanging_lines(text(indent), width, last + least <= width ? last : indent.size() + 4);
}

}  // namespace trainyard
