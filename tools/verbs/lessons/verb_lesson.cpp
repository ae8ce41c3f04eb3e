#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_reference.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/lessons/course_text.hpp"
#include "tools/verbs/lessons/lesson_page.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

struct RunLesson {
  LessonAnswer answer;
  ordered_json json;
};

/// Runs all of its commands; only a page needs pictures.
RunLesson run_lesson(const NumberedFile& file, bool pictures) {
  RunLesson run{{read_lesson(file), {}, {}, {}}, {}};
  LessonAnswer& a = run.answer;
  ordered_json figures = ordered_json::object();
  for (const LessonRun& each : a.lesson.runs) {
    a.answers.push_back(answer_of(each.command, pictures ? each.picture : ""));
    ordered_json answer = ordered_json::parse(a.answers.back().json);
    if (each.name.empty())
      figures = std::move(answer);
    else
      figures[each.name] = std::move(answer);
  }
  ordered_json holds = ordered_json::array();
  for (const LessonText& sentence : a.lesson.says) a.says.push_back(told(figures, sentence.text, sentence.place));
  for (const Criterion& criterion : a.lesson.holds) {
    a.holds.push_back(judge(criterion, figures));
    holds.push_back({{"text", a.holds.back().text}, {"holds", a.holds.back().holds}});
  }
  run.json = {{"lesson", file.name}, {"number", file.number}, {"group", file.group}, {"title", a.lesson.title},
              {"says", a.says},      {"holds", holds},        {"figures", figures}};
  return run;
}

std::string lesson_screen(const LessonAnswer& a, bool brief) {
  const Lesson& lesson = a.lesson;
  std::string text = fmt::format("{}. {}\n\n{}", lesson.file.number, lesson.title, labelled("shows", lesson.shows));
  for (std::size_t i = 0; i < lesson.runs.size(); ++i) {
    text += fmt::format("\n$ trainyard {}\n", lesson.runs[i].command);
    if (!brief) text += a.answers[i].screen;
  }
  text += "\n";
  for (const std::string& sentence : a.says) text += labelled("this run", sentence);
  for (const LessonText& look : lesson.look) text += labelled("look at", look.text);
  for (const LessonText& change : lesson.change) {
    text += labelled("change", change.text);
    if (!change.command.empty()) text += labelled("", "trainyard " + change.command);
  }
  for (const Verdict& verdict : a.holds)
    if (!verdict.holds) text += labelled("NOT SO", verdict.text);
  return text;
}

std::string lesson_list(const std::vector<NumberedFile>& files) {
  std::vector<std::string> titles;
  for (const NumberedFile& file : files) titles.push_back(read_lesson(file).title);
  return numbered_list(files, titles) + "\ntrainyard lesson NUMBER runs one, and says what it shows\n";
}

int lesson(const std::vector<std::string>& words) {
  Arguments arguments("lesson",
                      "A system of distributed training, run: what it shows with the numbers of this run, what to look "
                      "at, and what to change. Without a number: the lessons there are. Exit code 1 where a run shows "
                      "what its lesson does not say.",
                      "lesson 3 --html ring.html");
  std::string which, html, json;
  bool brief = false;
  arguments.positional("LESSON", which, "its number or name", false);
  arguments.output("--html", html, "write the lesson as a page with pictures; - is stdout");
  arguments.output("--json", json, "write its figures and sentences as JSON; - is stdout");
  arguments.flag("--brief", brief, "leave out what the commands print");
  if (!arguments.parse(words)) return kGood;
  const std::vector<NumberedFile> files = numbered_files("scenarios/lessons");
  if (which.empty()) {
    if (!(html + json).empty()) throw UserError("trainyard lesson: --html and --json are of one lesson: which?");
    write_atomically("-", lesson_list(files));
    return kGood;
  }
  const RunLesson run = run_lesson(find_numbered(files, "lesson", which), !html.empty());
  if (!json.empty()) write_atomically(json, json_text(run.json, 2) + "\n");
  if (!html.empty()) write_atomically(html, lesson_page(run.answer, read_glossary(), run.json));
  if (json != "-" && html != "-") write_atomically("-", lesson_screen(run.answer, brief));
  const auto& holds = run.answer.holds;
  return std::all_of(holds.begin(), holds.end(), [](const Verdict& j) { return j.holds; }) ? kGood : kFailsLimit;
}

std::vector<FieldRow> lesson_rows() {
  return {{"lesson", "text", "its name", ""},
          {"number", "number", "in reading order", ""},
          {"group", "text", "of lessons", ""},
          {"title", "text", "what it is about", ""},
          {"says", "list", "sentences with the figures of this run", ""},
          {"holds", "list", "what has to be so for the lesson to be right", ""},
          {"holds[].text", "text", "the figure, and what was wanted", ""},
          {"holds[].holds", "true|false", "whether it is so", ""},
          {"figures", "object", "the answer of its command as its --json has it; of several, by the run's name", ""}};
}
const RegisterJsonReference lesson_reference{"lesson", "a lesson that was run", lesson_rows};
const RegisterVerb registered_lesson{"lesson", "a system of distributed training, run and explained", lesson};

}  // namespace
}  // namespace trainyard
