#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/src/lessons/lesson_file.hpp"
#include "tools/verbs/lessons/own_command.hpp"

namespace trainyard {

/// A lesson that has been run: the answers of its commands, and its sentences with their figures filled in.
struct LessonAnswer {
  Lesson lesson;
  std::vector<CommandAnswer> answers;
  std::vector<JudgedClaim> says, look;
  nlohmann::ordered_json json;  ///< as --json writes it

  /// The sentences that their criteria contradict, each with the criterion.
  std::vector<std::string> contradictions() const;
};

/// Runs all commands of the lesson. `pictures`: keep their pictures, which only a page needs.
LessonAnswer run_lesson(const NumberedFile&, bool pictures);

}  // namespace trainyard
