#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/reading/asked_fields.hpp"
#include "scenarios/src/lessons/course_files.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"

namespace trainyard {

/// The tasks of a page.
struct ServedTasks {
  std::vector<Task> tasks;
  /// Judges a scenario (YAML) by a task: {"answer": the JSON of the task's command, "screen", "briefing", "verdict": as
  /// `task --check --json` writes it}. Throws UserError.
  std::function<nlohmann::ordered_json(const Task&, const std::string& scenario)> judge;

  /// The task's name in the page's list of scenarios: "task 3: ring-for-master".
  static std::string name_of(const Task&);
  const Task* find(const std::string& name) const;
};

/// The tasks by name, as the page shows them: with hints, without explanations.
nlohmann::ordered_json tasks_json(const ServedTasks&);

/// The fields of `document` that the task allows to change: those among `offered`, and fields with more than one value,
/// as they are written in the scenario.
std::vector<ScenarioField> fields_of_task(const Task&, const Node& document, const std::vector<ScenarioField>& offered);
/// Throws UserError for a field that the task does not allow to change, and for a value with anything but numbers,
/// quantities, switches (`is_plain_value`) and words, also in maps and lists. So no value can name a file.
void require_change(const Task&, const std::string& path, const std::string& value,
                    bool (*is_plain_value)(const std::string&));

}  // namespace trainyard
