#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "scenarios/src/lessons/course_reading.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/lessons/course_pages.hpp"
#include "tools/verbs/lessons/course_text.hpp"
#include "tools/verbs/lessons/task_check.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string word_text(const GlossaryWord& word) {
  std::string text = word.word + "\n" + labelled("means", word.meaning);
  const std::pair<const char*, std::string> lines[] = {{"also", fmt::format("{}", fmt::join(word.synonyms, ", "))},
                                                       {"formula", word.formula},
                                                       {"unit", word.unit},
                                                       {"lesson", "trainyard lesson " + word.lesson}};
  for (const auto& [label, value] : lines)
    if (!value.empty()) text += labelled(label, value);
  return text;
}

std::string word_list(std::vector<GlossaryWord> words) {
  std::ranges::sort(words, [](const auto& a, const auto& b) { return a.word < b.word; });
  TextTable table;
  for (const GlossaryWord& word : words)
    table.rows.push_back({word.word, word.meaning.substr(0, word.meaning.find(". ")) +
                                         (word.meaning.find(". ") != std::string::npos ? "." : "")});
  return table.text() + fmt::format("\n{} words; trainyard glossary WORD explains one\n", words.size());
}

int glossary(const std::vector<std::string>& words) {
  Arguments arguments("glossary",
                      "Explains the words of distributed training: meaning, formula, unit, and the lesson that shows "
                      "it. Words of the answer of run are among them: MFU, trust, bottleneck, critical path.",
                      "glossary bubble");
  std::vector<std::string> terms;
  arguments.positionals("WORD", terms,
                        "a term of one word or several, for example ring all-reduce (default: a list of all terms)");
  if (!arguments.parse(words)) return kGood;
  const std::vector<GlossaryWord> all = read_glossary();
  if (terms.empty()) {
    write_atomically("-", word_list(all));
    return kGood;
  }
  write_atomically("-", word_text(find_word(all, fmt::format("{}", fmt::join(terms, " ")))));
  return kGood;
}

const RegisterVerb registered_glossary{"glossary", VerbGroup::teach,
                                       "explain the words of distributed training, with formulas", glossary};

/// The lessons by chapter, each with its tasks below it.
std::string outline(const Course& course) {
  std::string text, group;
  for (const CourseStep& step : course.steps) {
    const NumberedFile& file = step.lesson.file;
    if (file.group != group) text += fmt::format("{}{}\n", group.empty() ? "" : "\n", file.group);
    group = file.group;
    text += fmt::format("  {:>2}  {}\n", file.number, step.lesson.title);
    for (const Task& task : all_tasks(step))
      text += fmt::format("        task {}: {} ({})\n", task.file.number, task.title, task.level);
  }
  return text + "\ntrainyard course --html DIR writes the course as pages\n";
}

/// Writes all pages. Returns the sentences that the runs contradict.
std::vector<std::string> write_pages(const Course& course, const std::filesystem::path& folder) {
  watch_interrupts();
  std::vector<std::string> contradictions;
  for (const CourseStep& step : course.steps) {
    const LessonAnswer answer = run_lesson(step.lesson.file, true);
    for (const std::string& sentence : answer.contradictions())
      contradictions.push_back(fmt::format("lesson {}: {}", step.lesson.file.number, sentence));
    write_atomically(folder / page_name(step.lesson), lesson_page(course, step, answer));
    for (const Task& task : step.tasks) {
      end_if_interrupted();
      write_atomically(folder / page_name(task), task_page(course, step, task, briefing_text(task)));
    }
  }
  write_atomically(folder / "words.html", words_page(course));
  write_atomically(folder / "papers.html", papers_page(course));
  write_atomically(folder / "texts.html", texts_page(course));
  write_atomically(folder / "index.html", index_page(course));
  return contradictions;
}

int course(const std::vector<std::string>& words) {
  Arguments arguments("course",
                      "Lists all lessons and tasks in reading order, or writes them as pages: each lesson with its "
                      "pictures and its tasks, the words of the field, papers, and which lesson shows what a text "
                      "says. The pages open without a network. The exit code is 1 if a run contradicts its lesson.",
                      "course --html course");
  std::string html, lessons;
  arguments.output("--html", html, "folder to write the pages to; index.html is the first", true);
  arguments.option("--lessons", lessons, "LESSON,...", "only these lessons and their tasks, by number or name");
  if (!arguments.parse(words)) return kGood;
  if (html == "-") throw UserError("trainyard course: --html -: a folder expected");
  const Course course = read_course(comma_list(lessons));
  if (html.empty()) {
    write_atomically("-", outline(course));
    return kGood;
  }
  create_page_folder(html);
  const std::vector<std::string> contradictions = write_pages(course, html);
  std::size_t tasks = 0;
  for (const CourseStep& step : course.steps) tasks += step.tasks.size();
  std::string text = labelled("written", fmt::format("{} lessons, {} tasks; open {}", course.steps.size(), tasks,
                                                     (std::filesystem::path(html) / "index.html").string()));
  for (const std::string& sentence : contradictions) text += labelled("NOT SO", sentence);
  write_atomically("-", text);
  return contradictions.empty() ? kGood : kFailsLimit;
}

const RegisterVerb registered_course{"course", VerbGroup::teach, "write all lessons and tasks as pages", course};

}  // namespace

}  // namespace trainyard
