#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/src/lessons/course_files.hpp"
#include "tools/verbs/lessons/lesson_run.hpp"

namespace trainyard {

/// The simulator's verdict on a scenario that is meant to solve a task.
struct TaskVerdict {
  std::vector<Verdict> criteria;
  CommandAnswer answer;                  ///< answer of the task's command
  std::vector<std::string> explanation;  ///< if it solves the task: the sentences that are true of this answer
  std::string because;                   ///< if it is one of the task's wrong answers: why it is wrong; else empty

  bool is_solved() const;
};

/// Runs the task's command on the file. Throws UserError if the file changes a field that the task does not allow to
/// change, and the errors of the command.
TaskVerdict judge_task(const Task&, const std::filesystem::path& mine);
/// Judges the text of a scenario in the same way.
TaskVerdict judge_task_text(const Task&, const std::string& mine);

/// The task's briefing. Runs the start scenario, once in a process, if the briefing has figures of it.
std::string briefing_text(const Task&);

/// The verdict as `task --check --json` writes it.
nlohmann::ordered_json verdict_json(const Task&, const TaskVerdict&);

}  // namespace trainyard
