#include <fmt/format.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/lessons/course_text.hpp"
#include "tools/verbs/lessons/lesson_page.hpp"
#include "tools/verbs/lessons/task_check.hpp"
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
    if (!change.command.empty()) text += fmt::format("{}trainyard {}\n", report_label(""), change.command);
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
  Arguments arguments("lesson",
                      "Runs a system of distributed training and explains it with the numbers of this run: what it "
                      "shows, what to look at, and what to change. Without a number it lists the lessons. The exit "
                      "code is 1 if a run contradicts its lesson.",
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
  if (arguments.leaves_stdout_free()) write_atomically("-", lesson_screen(answer, brief));
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

/// The names of the tasks that a student has solved, in a JSON file: {"solved": ["ring-for-master"]}.
class TaskProgress {
 public:
  /// `file`: the file that the user names; empty: the one in the user's state folder (XDG_STATE_HOME). The file need not
  /// exist. Throws UserError if it holds something else.
  explicit TaskProgress(std::filesystem::path file);

  bool is_solved(const std::string& task) const { return solved_.contains(task); }
  /// Adds the task and writes the file, unless the file has the task. If the file cannot be written, throws UserError if
  /// the user named it, and returns the reason otherwise. "": done.
  std::string record(const std::string& task);

 private:
  std::filesystem::path file_;
  bool is_named_;
  std::set<std::string> solved_;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::filesystem::path file_of_user() {
  std::string state = variable("XDG_STATE_HOME");
  if (!state.starts_with("/")) {  // the XDG specification ignores relative paths
    if (variable("HOME").empty()) return {};
    state = variable("HOME") + "/.local/state";
  }
  return std::filesystem::path(state) / "trainyard/progress.json";
}

std::set<std::string> solved_tasks(const std::filesystem::path& file) {
  if (std::error_code error; std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))
    throw UserError(file.string() + ": a file expected");
  std::ifstream in(file);
  if (!in) return {};
  try {
    return parse_json({std::istreambuf_iterator<char>(in), {}}).at("solved").get<std::set<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw UserError(fmt::format("{}: {{\"solved\": [names of tasks]}} expected", file.string()));
  }
}

TaskProgress::TaskProgress(std::filesystem::path file)
    : file_(file.empty() ? file_of_user() : file), is_named_(!file.empty()), solved_(solved_tasks(file_)) {}

std::string TaskProgress::record(const std::string& task) {
  if (file_.empty()) return "there is no home folder";
  if (!solved_.insert(task).second) return "";
  try {
    std::error_code ignored;  // writing reports a folder that could not be made
    if (!is_named_) std::filesystem::create_directories(file_.parent_path(), ignored);
    write_atomically(file_, json_text(nlohmann::ordered_json{{"solved", solved_}}, 2) + "\n");
  } catch (const UserError& error) {
    if (is_named_) throw;
    return error.what();
  }
  return "";
}

struct TaskFlags {
  std::string which, check, to, json, record;  // without `to`, the scenario goes to stdout
  int hint = 0;
  bool solution = false;
};

std::string task_list(const std::vector<NumberedFile>& files, const TaskProgress& progress) {
  std::vector<std::vector<std::string>> cells;
  int solved = 0;
  for (const NumberedFile& file : files) {
    const Task task = read_task(file);
    const bool is_solved = progress.is_solved(file.name);
    solved += is_solved ? 1 : 0;
    cells.push_back({task.level, is_solved ? "solved" : "", task.title});
  }
  return numbered_list(files, cells) +
         fmt::format(
             "\n{} of {} tasks solved\n"
             "trainyard task NUMBER prints the task and its scenario, --hint 1 a hint; --check MY.yaml judges yours\n",
             solved, files.size());
}

/// The scenario below comments with the task's situation, its objectives and the fields that may change.
std::string task_text(const Task& task, const std::string& scenario) {
  std::string text = labelled("task", fmt::format("{}: {}", task.file.number, task.title));
  text += labelled("level", task.level);
  text += labelled("briefing", briefing_text(task));
  for (const std::string& objective : task.objectives) text += labelled("objective", objective);
  text += labelled("may change", fmt::format("{}; all else stays as it is", fmt::join(task.may_change, ", ")));
  if (!task.reproduces.empty()) text += labelled("published", task.reproduces);
  text += labelled("lesson", "trainyard lesson " + task.lesson);
  text += labelled("then", fmt::format("trainyard task {} --check MY.yaml (--hint 1 for a hint)", task.file.number));
  text.insert(0, "# ");
  for (std::size_t end = 0; (end = text.find('\n', end)) + 1 < text.size();) text.insert(++end, "# ");
  return text + scenario;
}

std::string verdict_text(const Task& task, const TaskVerdict& verdict) {
  std::string text;
  for (const Verdict& criterion : verdict.criteria)
    text += labelled(criterion.holds ? "yes" : "NOT YET", criterion.text);
  if (!verdict.is_solved()) return verdict.because.empty() ? text : text + labelled("because", verdict.because);
  text += labelled("solved", fmt::format("task {}: {}", task.file.number, task.title));
  for (const std::string& sentence : verdict.explanation) text += labelled("", sentence);
  return text + labelled("paper", task.paper);
}

int check_task(const Task& task, const TaskFlags& flags, TaskProgress& progress) {
  const TaskVerdict verdict = judge_task(task, scenario_file(flags.check));
  write_json(flags.json, verdict_json(task, verdict));
  if (flags.json != "-") write_atomically("-", verdict_text(task, verdict));
  if (!verdict.is_solved()) return kFailsLimit;
  if (const std::string problem = progress.record(task.file.name); !problem.empty())
    complain("trainyard task: progress is not kept: " + problem);
  return kGood;
}

int show_or_check_task(const Task& task, const TaskFlags& flags, TaskProgress& progress) {
  if (!flags.check.empty()) return check_task(task, flags, progress);
  if (flags.hint > 0) {
    const auto count = static_cast<int>(task.hints.size());
    if (flags.hint > count)
      throw UserError(fmt::format("--hint {}: task {} has {}", flags.hint, task.file.number, count));
    std::string text;
    for (int i = 0; i < flags.hint; ++i)
      text += labelled(fmt::format("hint {}", i + 1), task.hints[static_cast<std::size_t>(i)]);
    write_atomically("-", text);
    return kGood;
  }
  write_atomically(flags.to.empty() ? "-" : flags.to,
                   task_text(task, flags.solution ? yaml_text(changed_start(task, task.solution)) : task.start_text));
  return kGood;
}

/// Throws UserError if two flags ask for different things, or if a flag has no task.
void require_one_use(const TaskFlags& flags) {
  const std::pair<const char*, bool> uses[] = {
      {"--check", !flags.check.empty()}, {"--hint", flags.hint > 0}, {"--solution", flags.solution}};
  const char* first = nullptr;
  for (const auto& [flag, is_stated] : uses) {
    if (!is_stated) continue;
    if (first) throw UserError(fmt::format("trainyard task: {}: not with {}", flag, first));
    first = flag;
  }
  if (!flags.to.empty() && first && !flags.solution)
    throw UserError(fmt::format("trainyard task: --to: not with {}", first));
  if (flags.which.empty() && (first || !flags.to.empty()))
    throw UserError(fmt::format("trainyard task: {}: the number or name of a task expected", first ? first : "--to"));
}

int task(const std::vector<std::string>& words) {
  Arguments arguments(
      "task",
      "Sets an exercise: a scenario to change until it meets the objectives, judged by the simulator. Without a number "
      "it lists the tasks. --check ends with exit code 0 if the file solves the task, 1 if not.",
      "task 3 --to mine.yaml");
  TaskFlags flags;
  arguments.positional("TASK", flags.which, "number or name of the task", false);
  arguments.output("--to", flags.to, "write the scenario to start from (default: stdout)");
  arguments.option("--hint", flags.hint, "N", "print the first N hints", 1);
  arguments.flag("--solution", flags.solution, "write a solution instead of the scenario to start from");
  arguments.option("--check", flags.check, "FILE", "judge this scenario");
  arguments.output("--json", flags.json, "with --check: write the verdict as JSON; - is stdout");
  arguments.output("--record", flags.record,
                   "file that keeps which tasks are solved; a --check that succeeds writes it (default: "
                   "trainyard/progress.json in the XDG state folder)");
  if (!arguments.parse(words)) return kGood;
  if (!flags.json.empty() && flags.check.empty()) throw UserError("trainyard task: --json: only with --check");
  require_one_use(flags);
  if (flags.record == "-") throw UserError("trainyard task: --record -: a file expected");
  TaskProgress progress(flags.record);
  const std::vector<NumberedFile> files = numbered_files("scenarios/tasks");
  if (flags.which.empty()) {
    write_atomically("-", task_list(files, progress));
    return kGood;
  }
  return show_or_check_task(read_task(find_numbered(files, "task", flags.which)), flags, progress);
}

std::vector<FieldRow> task_rows() {
  return {{"task", "text", "name of the task", ""},
          {"number", "number", "number of the task in reading order", ""},
          {"level", "text", "easy, medium or hard", ""},
          {"solved", "true|false", "true: all criteria hold", ""},
          {"criteria", "list", "criteria of the task", ""},
          {"criteria[].text", "text", "the figure and the expected value", ""},
          {"criteria[].holds", "true|false", "true: the criterion holds", ""},
          {"because", "text", "why this answer is wrong, if the task knows it; else empty", ""},
          {"explanation", "list", "sentences that are true of this answer, if it solves the task", ""}};
}
const RegisterJsonReference task_reference{"task", "a scenario judged by a task (with --check)", task_rows};
const RegisterVerb registered_task{"task", VerbGroup::teach, "set an exercise: change a scenario until it meets a goal",
                                   task};

}  // namespace

}  // namespace trainyard
