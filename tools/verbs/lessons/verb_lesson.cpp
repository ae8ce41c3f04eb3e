#include <fmt/format.h>

#include "scenarios/src/answer/json_reference.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/lessons/course_text.hpp"
#include "tools/verbs/lessons/lesson_page.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string lesson_screen(const LessonAnswer& a, bool brief) {
  const Lesson& lesson = a.lesson;
  std::string text = fmt::format("{}. {}\n\n{}", lesson.file.number, lesson.title, labelled("shows", lesson.shows));
  for (std::size_t i = 0; i < lesson.runs.size(); ++i) {
    text += fmt::format("\n$ trainyard {}\n", lesson.runs[i].command);
    if (!brief) text += a.answers[i].screen;
  }
  text += "\n";
  for (const JudgedClaim& claim : a.says)
    if (claim.holds()) text += labelled("this run", claim.text);
  for (const JudgedClaim& claim : a.look)
    if (claim.holds()) text += labelled("look at", claim.text);
  for (const LessonChange& change : lesson.change) {
    text += labelled("change", change.text);
    if (!change.command.empty()) text += labelled("", "trainyard " + change.command);
  }
  for (const std::string& sentence : a.contradictions()) text += labelled("NOT SO", sentence);
  return text;
}

std::string lesson_list(const std::vector<NumberedFile>& files) {
  std::vector<std::vector<std::string>> titles;
  for (const NumberedFile& file : files) titles.push_back({read_lesson(file).title});
  return numbered_list(files, titles) + "\ntrainyard lesson NUMBER runs a lesson and explains what it shows\n";
}

int lesson(const std::vector<std::string>& words) {
  Arguments arguments(
      "lesson",
      "Runs a system of distributed training and explains it with the numbers of this run: what it "
      "shows, what to look at, and what to change. Without a number it lists the lessons. The exit code "
      "is 1 if a run contradicts its lesson.",
      "lesson 3 --html ring.html");
  std::string which, html, json, find;
  bool brief = false;
  arguments.positional("LESSON", which, "number or name of the lesson", false);
  arguments.output("--html", html, "write the lesson as a page with pictures; - is stdout");
  arguments.output("--json", json, "write the figures and sentences of the lesson as JSON; - is stdout");
  arguments.flag("--brief", brief, "leave out the output of the commands");
  arguments.option("--find", find, "WORD", "list the lessons about this word of the field, the nearest first");
  if (!arguments.parse(words)) return kGood;
  const std::vector<NumberedFile> files = numbered_files("scenarios/lessons");
  if (!find.empty()) {
    if (!(which + html + json).empty())
      throw UserError("trainyard lesson: --find WORD, without a lesson and its outputs");
    write_atomically("-", found_lessons(files, find));
    return kGood;
  }
  if (which.empty()) {
    if (!(html + json).empty())
      throw UserError("trainyard lesson: --html and --json need the number or name of a lesson");
    write_atomically("-", lesson_list(files));
    return kGood;
  }
  const LessonAnswer answer = run_lesson(find_numbered(files, "lesson", which), !html.empty());
  write_json(json, answer.json);
  if (!html.empty()) write_atomically(html, lesson_page(answer, read_glossary()));
  if (json != "-" && html != "-") write_atomically("-", lesson_screen(answer, brief));
  return answer.contradictions().empty() ? kGood : kFailsLimit;
}

std::vector<FieldRow> lesson_rows() {
  return {
      {"lesson", "text", "name of the lesson", ""},
      {"number", "number", "number of the lesson in reading order", ""},
      {"group", "text", "group of the lesson", ""},
      {"title", "text", "title of the lesson", ""},
      {"says", "list", "sentences with the figures of this run", ""},
      {"says[].text", "text", "text of the sentence", ""},
      {"says[].holds", "true|false", "true: all criteria hold, so that the lesson shows the sentence", ""},
      {"says[].criteria", "list", "what has to hold for the sentence to be true", ""},
      {"says[].criteria[].text", "text", "the figure and the expected value", ""},
      {"says[].criteria[].holds", "true|false", "true: the criterion holds in this run", ""},
      {"look", "list", "what to look at in the pictures; items as in says", ""},
      {"claims", "number", "number of criteria that this run was checked against", ""},
      {"figures", "object", "the --json answer of the lesson's command; with several commands, by the run's name", ""}};
}
const RegisterJsonReference lesson_reference{"lesson", "a lesson that was run", lesson_rows};
const RegisterVerb registered_lesson{"lesson", VerbGroup::teach, "run and explain a system of distributed training",
                                     lesson};

}  // namespace
}  // namespace trainyard
