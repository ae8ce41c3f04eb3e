#pragma once
#include <string>

#include "scenarios/result.hpp"
#include "scenarios/step_run.hpp"

namespace trainyard {

/// What a run of a scenario's steps answers. Throws InternalError where the parts of a step do not sum up to it.
Result result_of(const Scenario&, const StepRun&);
/// Of a step that was said: its rates, and nothing that only a simulation knows.
Result said_result(const Scenario&);

/// What a resource of the critical path is called in answers.
std::string resource_name(const std::string&);

/// Adds what parameter servers, or the input pipeline, tell of a run that has them.
void book_servers(const StepRun&, Result&);
void book_input(const Scenario&, const StepRun&, Result&);

}  // namespace trainyard
