#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/reading/asked_fields.hpp"
#include "scenarios/src/lessons/task_file.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"

namespace trainyard {

/// The tasks of a page, and who judges a scenario by one: {"answer": what the task's command writes as JSON, "screen",
/// "verdict": as `task --check --json` has it}. Throws UserError.
struct ServedTasks {
  std::vector<Task> tasks;
  std::function<nlohmann::ordered_json(const Task&, const std::string& scenario)> judge;

  /// "task 3: ring-for-master", among the names of scenarios.
  static std::string name_of(const Task&);
  const Task* find(const std::string& name) const;
};

/// What a page tells of them: by name, with hints, without explanations.
nlohmann::ordered_json told_tasks(const ServedTasks&);

/// The fields that the task allows to change, of a scenario `document`: those of `offered` among them, and as they are
/// written in a scenario those that hold more than one value.
std::vector<ScenarioField> fields_of_task(const Task&, const Node& document, const std::vector<ScenarioField>& offered);
/// Throws UserError for a field that the task does not allow to change, and for a value that is not made of numbers,
/// quantities, switches (`is_plain_value`) and words alone, in maps and lists: none of these can name a file.
void require_change(const Task&, const std::string& path, const std::string& value,
                    bool (*is_plain_value)(const std::string&));

}  // namespace trainyard
