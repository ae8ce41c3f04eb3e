#pragma once
#include <functional>
#include <string>

namespace trainyard {

/// Runs a verb in this process, which ends after it, as another program asks for it. `question` is JSON: `words` of the command,
/// `folder` and `environment` of who asks, and `documents`, {path: a scenario as JSON} that stand in no file. The answer is
/// JSON: the exit `code`, and what went to stdout (`output`) and stderr (`complaint`). Progress is noted line by line.
std::string answer_call(const std::string& question, const std::function<void(const std::string&)>& note);

}  // namespace trainyard
