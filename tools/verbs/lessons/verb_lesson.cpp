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

ordered_json verdicts_json(const std::vector<Verdict>& verdicts) {
  ordered_json list = ordered_json::array();
  for (const Verdict& verdict : verdicts) list.push_back({{"text", verdict.text}, {"holds", verdict.holds}});
  return list;
}

ordered_json lesson_json(const LessonAnswer& a, const ordered_json& figures) {
  const NumberedFile& file = a.lesson.file;
  ordered_json json = {
      {"lesson", file.name}, {"number", file.number}, {"group", file.group}, {"title", a.lesson.title}};
  std::size_t criteria = a.holds.size();
  for (const auto& [key, claims] : {std::pair{"says", &a.says}, std::pair{"look", &a.look}}) {
    json[key] = ordered_json::array();
    for (const JudgedClaim& claim : *claims) {
      json[key].push_back(
          {{"text", claim.text}, {"holds", claim.holds()}, {"criteria", verdicts_json(claim.verdicts)}});
      criteria += claim.verdicts.size();
    }
  }
  json["holds"] = verdicts_json(a.holds);
  json["claims"] = criteria;
  json["figures"] = figures;
  return json;
}

/// Runs all commands of the lesson. `pictures`: keep their pictures, which only a page needs.
RunLesson run_lesson(const NumberedFile& file, bool pictures) {
  RunLesson run{{read_lesson(file), {}, {}, {}, {}}, {}};
  LessonAnswer& a = run.answer;
  ordered_json figures = ordered_json::object();
  for (const LessonRun& lesson_run : a.lesson.runs) {
    a.answers.push_back(answer_of(lesson_run.command, pictures ? lesson_run.picture : ""));
    ordered_json answer = ordered_json::parse(a.answers.back().json);
    if (lesson_run.name.empty())
      figures = std::move(answer);
    else
      figures[lesson_run.name] = std::move(answer);
  }
  const auto judged = [&figures](const std::vector<Claim>& claims) {
    std::vector<JudgedClaim> all;
    for (const Claim& claim : claims) all.push_back(judge(claim, figures));
    return all;
  };
  a.says = judged(a.lesson.says);
  a.look = judged(a.lesson.look);
  for (const Criterion& criterion : a.lesson.holds) a.holds.push_back(judge(criterion, figures));
  run.json = lesson_json(a, figures);
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
  std::string which, html, json;
  bool brief = false;
  arguments.positional("LESSON", which, "number or name of the lesson", false);
  arguments.output("--html", html, "write the lesson as a page with pictures; - is stdout");
  arguments.output("--json", json, "write the figures and sentences of the lesson as JSON; - is stdout");
  arguments.flag("--brief", brief, "leave out the output of the commands");
  if (!arguments.parse(words)) return kGood;
  const std::vector<NumberedFile> files = numbered_files("scenarios/lessons");
  if (which.empty()) {
    if (!(html + json).empty())
      throw UserError("trainyard lesson: --html and --json need the number or name of a lesson");
    write_atomically("-", lesson_list(files));
    return kGood;
  }
  const RunLesson run = run_lesson(find_numbered(files, "lesson", which), !html.empty());
  if (!json.empty()) write_atomically(json, json_text(run.json, 2) + "\n");
  if (!html.empty()) write_atomically(html, lesson_page(run.answer, read_glossary(), run.json));
  if (json != "-" && html != "-") write_atomically("-", lesson_screen(run.answer, brief));
  return run.answer.contradictions().empty() ? kGood : kFailsLimit;
}

std::vector<FieldRow> lesson_rows() {
  return {
      {"lesson", "text", "name of the lesson", ""},
      {"number", "number", "number of the lesson in reading order", ""},
      {"group", "text", "group of the lesson", ""},
      {"title", "text", "title of the lesson", ""},
      {"says", "list", "sentences with the figures of this run", ""},
      {"says[].text", "text", "the sentence", ""},
      {"says[].holds", "true|false", "true: all criteria hold, so that the lesson shows the sentence", ""},
      {"says[].criteria", "list", "what has to hold for the sentence to be true", ""},
      {"says[].criteria[].text", "text", "the figure and the expected value", ""},
      {"says[].criteria[].holds", "true|false", "true: the criterion holds in this run", ""},
      {"look", "list", "what to look at in the pictures; items as in says", ""},
      {"claims", "number", "number of criteria that this run was checked against", ""},
      {"holds", "list", "statements of the lesson as a whole, checked against this run", ""},
      {"holds[].text", "text", "the figure and the expected value", ""},
      {"holds[].holds", "true|false", "true: the statement holds in this run", ""},
      {"figures", "object", "the --json answer of the lesson's command; with several commands, by the run's name", ""}};
}
const RegisterJsonReference lesson_reference{"lesson", "a lesson that was run", lesson_rows};
const RegisterVerb registered_lesson{"lesson", VerbGroup::teach, "run and explain a system of distributed training",
                                     lesson};

}  // namespace
}  // namespace trainyard
