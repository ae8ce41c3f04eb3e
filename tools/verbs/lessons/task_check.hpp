#pragma once
#include <nlohmann/json_fwd.hpp>

#include "scenarios/src/lessons/task_file.hpp"
#include "tools/verbs/lessons/own_command.hpp"

namespace trainyard {

/// What the simulator says of a scenario that is to solve a task.
struct TaskVerdict {
  std::vector<Verdict> criteria;
  CommandAnswer answer;  ///< of the task's command

  bool solved() const;
};

/// Runs the task's command on the file. Throws UserError for a field that may not change, and what the command throws.
TaskVerdict judge_task(const Task&, const std::filesystem::path& mine);
/// The same of a scenario that is no file yet.
TaskVerdict judge_task_text(const Task&, const std::string& mine);

/// As `task --check --json` writes it.
nlohmann::ordered_json verdict_json(const Task&, const TaskVerdict&);

}  // namespace trainyard
