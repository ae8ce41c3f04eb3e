#include "tools/verbs/lessons/task_check.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/lessons/answer_folder.hpp"

namespace trainyard {

bool TaskVerdict::solved() const {
  return std::all_of(criteria.begin(), criteria.end(), [](const Verdict& verdict) { return verdict.holds; });
}

TaskVerdict judge_task(const Task& task, const std::filesystem::path& mine) {
  require_allowed_changes(task, read_document(mine));
  std::string command = task.command;
  const std::string mark = "{this}";
  command.replace(command.find(mark), mark.size(), "'" + std::filesystem::absolute(mine).string() + "'");
  TaskVerdict verdict{{}, answer_of(command)};
  const auto figures = nlohmann::ordered_json::parse(verdict.answer.json);
  for (const Criterion& criterion : task.criteria) verdict.criteria.push_back(judge(criterion, figures));
  return verdict;
}

TaskVerdict judge_task_text(const Task& task, const std::string& mine) {
  const AnswerFolder folder;
  write_atomically(folder.file("mine.yaml"), mine);
  return judge_task(task, folder.file("mine.yaml"));
}

nlohmann::ordered_json verdict_json(const Task& task, const TaskVerdict& verdict) {
  nlohmann::ordered_json criteria = nlohmann::ordered_json::array();
  for (const Verdict& of : verdict.criteria) criteria.push_back({{"text", of.text}, {"holds", of.holds}});
  return {{"task", task.file.name}, {"number", task.file.number}, {"solved", verdict.solved()}, {"criteria", criteria}};
}

}  // namespace trainyard
