#pragma once
#include <nlohmann/json_fwd.hpp>

#include "scenarios/src/lessons/task_file.hpp"
#include "tools/verbs/lessons/own_command.hpp"

namespace trainyard {

/// The simulator's verdict on a scenario that is meant to solve a task.
struct TaskVerdict {
  std::vector<Verdict> criteria;
  CommandAnswer answer;  ///< answer of the task's command

  bool solved() const;
};

/// Runs the task's command on the file. Throws UserError if the file changes a field that the task does not allow to
/// change, and the errors of the command.
TaskVerdict judge_task(const Task&, const std::filesystem::path& mine);
/// The same for the text of a scenario.
TaskVerdict judge_task_text(const Task&, const std::string& mine);

/// The verdict as `task --check --json` writes it.
nlohmann::ordered_json verdict_json(const Task&, const TaskVerdict&);

}  // namespace trainyard
