#include <fmt/format.h>

#include <filesystem>

#include "sim/process/output.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/lessons/course_pages.hpp"
#include "tools/verbs/lessons/course_text.hpp"
#include "tools/verbs/lessons/task_check.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

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
  std::vector<std::string> contradictions;
  for (const CourseStep& step : course.steps) {
    const LessonAnswer answer = run_lesson(step.lesson.file, true);
    for (const std::string& sentence : answer.contradictions())
      contradictions.push_back(fmt::format("lesson {}: {}", step.lesson.file.number, sentence));
    write_atomically(folder / page_name(step.lesson), lesson_page(course, step, answer));
    for (const Task& task : step.tasks)
      write_atomically(folder / page_name(task), task_page(course, step, task, briefing_text(task)));
  }
  write_atomically(folder / "words.html", words_page(course));
  write_atomically(folder / "papers.html", papers_page(course));
  write_atomically(folder / "texts.html", texts_page(course));
  write_atomically(folder / "index.html", index_page(course));
  return contradictions;
}

int course(const std::vector<std::string>& words) {
  Arguments arguments(
      "course",
      "Lists all lessons and tasks in reading order, or writes them as pages: each lesson with its "
      "pictures and its tasks, the words of the field, papers, and which lesson shows what a text says. "
      "The pages open without a network. The exit code is 1 if a run contradicts its lesson.",
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
