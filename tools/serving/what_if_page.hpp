#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "tools/serving/served_task.hpp"

namespace trainyard {

/// Scenarios that a page may ask about, by name: no name of a request is ever a path.
using ServedScenarios = std::map<std::string, std::filesystem::path>;
/// Those that come with the program, and `own` under its file's name ("": none). Throws UserError where that is no scenario.
ServedScenarios served_scenarios(const std::filesystem::path& own);

/// The page, which asks with this token and begins with `scenario`, which may be a task.
std::string what_if_page(const ServedScenarios&, const ServedTasks&, const std::string& scenario,
                         const std::string& token);

/// Answers a request of the page, {"scenario": NAME, "set": [[PATH, VALUE], …], "want": "answer" | "scenario" | "report"}:
/// - answer: `answer` as `run --json` gives it without what-ifs, `screen`, and `controls`, the fields that may be set;
/// - scenario: `yaml`, the scenario as changed; report: `html`, the page of `run --html`.
/// Where the scenario is a task, its start is changed, `controls` are what the task allows, and an answer has `verdict` and,
/// when it is solved, `explanation`; `answer` is then what the task's command answers.
/// {"error": one line} for what a reader refuses. Only fields that are
/// among the controls are set, and only to names of their lists, numbers, quantities and switches: no value names a file.
std::string answer_request(const ServedScenarios&, const ServedTasks&, const std::string& request);

}  // namespace trainyard
