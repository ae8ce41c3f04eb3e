#include "tools/verbs/lessons/course_text.hpp"

#include <fmt/format.h>

#include <sstream>

#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {

std::string labelled(const std::string& label, const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return wrapped(report_label(label.c_str()), words, "");
}

std::string numbered_list(const std::vector<NumberedFile>& files, const std::vector<std::vector<std::string>>& cells) {
  std::string text, group;
  TextTable table;
  table.right = {true};
  const auto flush = [&] {
    if (!table.rows.empty()) text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", group, table.text("  "));
    table.rows.clear();
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].group != group) flush();
    group = files[i].group;
    std::vector<std::string>& row = table.rows.emplace_back(cells[i]);
    row.insert(row.begin(), {std::to_string(files[i].number), files[i].name});
  }
  flush();
  return text;
}

}  // namespace trainyard
