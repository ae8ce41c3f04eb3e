#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "tools/serving/served_task.hpp"

namespace trainyard {

/// The files of the scenarios that a page may ask about, by name. A request never names a path.
using ServedScenarios = std::map<std::string, std::filesystem::path>;
/// The shipped scenarios, and `own` under the name of its file ("": none). Throws UserError if `own` is no scenario.
ServedScenarios served_scenarios(const std::filesystem::path& own);

/// The page. Its requests have this token. It begins with `scenario`, which may be the name of a task.
std::string what_if_page(const ServedScenarios&, const ServedTasks&, const std::string& scenario,
                         const std::string& token);

/// Answers a request of the page, {"scenario": NAME, "set": [[PATH, VALUE], …], "want": WHAT}. By WHAT, the answer has
/// - answer: `answer` as `run --json` gives it without what-ifs, `screen`, and `controls`, the fields that may be set;
/// - scenario: `yaml`, the scenario as changed; report: `html`, the page of `run --html`.
/// For a task, the changes apply to its start, `controls` are the fields that the task allows to change, `answer` is that
/// of the task's command, and there are `verdict` and `briefing`.
/// Input that a reader refuses gives {"error": one line, "path": the changed field that it is about}. If the error names
/// no changed field, that is the last one. Only fields among the controls can be set, and only to names of their lists,
/// numbers, quantities and switches (`typed_value`), so no value names a file. All scenarios but tasks take
/// `prices`, the value of their key. If it is empty, each has its own prices, if any.
std::string answer_request(const ServedScenarios&, const ServedTasks&, const std::string& request,
                           const std::string& prices = {});

}  // namespace trainyard
