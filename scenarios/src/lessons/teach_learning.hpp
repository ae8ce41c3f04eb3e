#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Lists the methods of synchronization that `small_training` accepts: "all-reduce", "asynchronous", …
std::vector<std::string> ways_to_learn();
/// Returns a scenario of a few workers of different speeds that learn a small task with one of these methods.
Scenario small_training(const std::string& method, int workers, const Overrides&);

/// Shows the first `events` gradients and updates of a scenario that has a section `learn`.
LessonView teach_learning(const Scenario&, int events);

}  // namespace trainyard
