#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// How replicas of the small training come to common parameters: "all-reduce", "asynchronous", …
std::vector<std::string> ways_to_learn();
/// A few workers that learn a small task in one of these ways, at unlike speeds.
Scenario small_training(const std::string& way, int workers, const Overrides&);

/// The first `events` gradients and updates of a scenario with `learn`.
LessonView teach_learning(const Scenario&, int events);

}  // namespace trainyard
