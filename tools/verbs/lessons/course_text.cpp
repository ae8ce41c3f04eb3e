#include "tools/verbs/lessons/course_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "scenarios/src/lessons/course_files.hpp"
#include "sim/error.hpp"
#include "sim/stable_sort.hpp"
#include "tools/reports/report_lines.hpp"

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

namespace {

/// Lower case without the signs in which spellings differ: "All-Reduce" and "all reduce" are "allreduce".
std::string spelling(const std::string& text) {
  std::string plain;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

/// One lesson that the search found; the smaller the rank, the nearer.
struct FoundLesson {
  int rank = 0;
  NumberedFile file;
  std::string title, why;
};

/// The glossary word that the search names, exactly; null: none.
const GlossaryWord* named_word(const std::vector<GlossaryWord>& words, const std::string& wanted) {
  const auto is_named = [&wanted](const GlossaryWord& word) {
    const auto is_wanted = [&wanted](const std::string& name) { return spelling(name) == wanted; };
    return is_wanted(word.word) || std::ranges::any_of(word.synonyms, is_wanted) ||
           std::ranges::any_of(word.unlinked, is_wanted);
  };
  const auto found = std::ranges::find_if(words, is_named);
  return found == words.end() ? nullptr : &*found;
}

std::string text_of(const Lesson& lesson) {
  std::string text = lesson.shows;
  for (const LessonRun& run : lesson.runs) text += " " + run.command;
  for (const auto* claims : {&lesson.says, &lesson.look})
    for (const Claim& claim : *claims) text += " " + claim.text;
  for (const LessonChange& change : lesson.change) text += " " + change.text + " " + change.command;
  return spelling(text);
}

FoundLesson match(const Lesson& lesson, const GlossaryWord* word, const std::string& wanted) {
  FoundLesson found{0, lesson.file, lesson.title, ""};
  const auto take_reason = [&](int rank, const std::string& why) {
    if (found.why.empty()) found.rank = rank, found.why = why;
  };
  if (spelling(lesson.file.name) == wanted) take_reason(1, "its name");
  for (const std::string& alias : lesson.aliases)
    if (spelling(alias) == wanted) take_reason(1, "also called " + alias);
  if (word && word->lesson == lesson.file.name) take_reason(2, fmt::format("the glossary's lesson for {}", word->word));
  if (spelling(lesson.title + lesson.file.name).find(wanted) != std::string::npos) take_reason(3, "its title");
  if (text_of(lesson).find(wanted) != std::string::npos) take_reason(4, "its text");
  return found;
}

}  // namespace

std::string found_lessons(const std::vector<NumberedFile>& files, const std::string& word) {
  const std::vector<GlossaryWord> words = read_glossary();
  const std::string wanted = spelling(word);
  const GlossaryWord* named = named_word(words, wanted);
  std::vector<FoundLesson> all;
  std::vector<std::string> names;
  for (const NumberedFile& file : files) {
    const Lesson lesson = read_lesson(file);
    names.push_back(file.name);
    names.insert(names.end(), lesson.aliases.begin(), lesson.aliases.end());
    FoundLesson found = match(lesson, named, wanted);
    if (!wanted.empty() && !found.why.empty()) all.push_back(std::move(found));
  }
  if (all.empty()) {
    for (const GlossaryWord& w : words) names.push_back(w.word);
    const auto near = nearest(word, names);
    throw UserError(fmt::format("trainyard lesson --find \"{}\": no lesson has it{}", word,
                                near ? fmt::format("; did you mean \"{}\"?", *near) : ""));
  }
  sort_stably(all, [](const FoundLesson& a, const FoundLesson& b) { return a.rank < b.rank; });
  constexpr std::size_t most = 10;
  if (all.size() > most) all.resize(most);
  TextTable table;
  table.right = {true};
  for (const FoundLesson& found : all)
    table.rows.push_back({std::to_string(found.file.number), found.file.name, found.title, found.why});
  return table.text() + (named ? fmt::format("\n{}: {}\n", named->word, named->meaning) : "");
}

}  // namespace trainyard
