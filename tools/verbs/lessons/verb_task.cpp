#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_reference.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/lessons/course_text.hpp"
#include "tools/verbs/lessons/task_check.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

struct TaskFlags {
  std::string which, check, to = "-", json;
  int hint = 0;
  bool solution = false;
};

std::string task_list(const std::vector<NumberedFile>& files) {
  std::vector<std::string> titles;
  for (const NumberedFile& file : files) titles.push_back(read_task(file).title);
  return numbered_list(files, titles) +
         "\ntrainyard task NUMBER prints the task's scenario, --hint 1 a hint; --check MY.yaml judges your scenario\n";
}

/// The scenario below comments with the task's title, its objectives and the fields that may change.
std::string task_text(const Task& task, const std::string& scenario) {
  std::string text = labelled("task", fmt::format("{}: {}", task.file.number, task.title));
  for (const std::string& objective : task.objectives) text += labelled("", objective);
  text += labelled("may change", fmt::format("{}", fmt::join(task.may_change, ", ")));
  text += labelled("then", fmt::format("trainyard task {} --check MY.yaml (--hint 1 for a hint)", task.file.number));
  text.insert(0, "# ");
  for (std::size_t end = 0; (end = text.find('\n', end)) + 1 < text.size();) text.insert(++end, "# ");
  return text + scenario;
}

int check_task(const Task& task, const TaskFlags& flags) {
  const TaskVerdict verdict = judge_task(task, flags.check);
  std::string text;
  for (const Verdict& criterion : verdict.criteria)
    text += labelled(criterion.holds ? "yes" : "NOT YET", criterion.text);
  if (verdict.solved()) text += labelled("solved", task.explanation);
  if (!flags.json.empty()) write_atomically(flags.json, json_text(verdict_json(task, verdict), 2) + "\n");
  if (flags.json != "-") write_atomically("-", text);
  return verdict.solved() ? kGood : kFailsLimit;
}

int one_task(const Task& task, const TaskFlags& flags) {
  if (!flags.check.empty()) return check_task(task, flags);
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
  write_atomically(flags.to, task_text(task, flags.solution ? yaml_text(solved(task)) : task.start_text));
  return kGood;
}

int task(const std::vector<std::string>& words) {
  Arguments arguments("task",
                      "Sets an exercise: a scenario to change until it meets the objectives, judged by the simulator. "
                      "Without a number it lists the tasks. --check ends with exit code 0 if the file solves the task, "
                      "1 if not.",
                      "task 3 --to mine.yaml");
  TaskFlags flags;
  arguments.positional("TASK", flags.which, "number or name of the task", false);
  arguments.output("--to", flags.to, "write the scenario to start from (default: stdout)");
  arguments.option("--hint", flags.hint, "N", "print the first N hints");
  arguments.flag("--solution", flags.solution, "write a solution instead of the scenario to start from");
  arguments.option("--check", flags.check, "FILE", "judge this scenario");
  arguments.output("--json", flags.json, "with --check: write the verdict as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (!flags.json.empty() && flags.check.empty()) throw UserError("trainyard task: --json: only with --check");
  const std::vector<NumberedFile> files = numbered_files("scenarios/tasks");
  if (flags.which.empty()) {
    write_atomically("-", task_list(files));
    return kGood;
  }
  return one_task(read_task(find_numbered(files, "task", flags.which)), flags);
}

std::vector<FieldRow> task_rows() {
  return {{"task", "text", "name of the task", ""},
          {"number", "number", "number of the task in reading order", ""},
          {"solved", "true|false", "true: all criteria hold", ""},
          {"criteria", "list", "criteria of the task", ""},
          {"criteria[].text", "text", "the figure and the expected value", ""},
          {"criteria[].holds", "true|false", "true: the criterion holds", ""}};
}
const RegisterJsonReference task_reference{"task", "a scenario judged by a task (with --check)", task_rows};
const RegisterVerb registered_task{"task", VerbGroup::teach, "set an exercise: change a scenario until it meets a goal",
                                   task};

}  // namespace
}  // namespace trainyard
