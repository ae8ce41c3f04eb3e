#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/src/lessons/glossary.hpp"
#include "scenarios/src/lessons/lesson_file.hpp"
#include "tools/verbs/lessons/own_command.hpp"

namespace trainyard {

/// A lesson that has been run: the answers of its commands, and its sentences with their figures filled in.
struct LessonAnswer {
  Lesson lesson;
  std::vector<CommandAnswer> answers;
  std::vector<JudgedClaim> says, look;
  std::vector<Verdict> holds;  ///< the criteria of the lesson as a whole

  /// The sentences that their criteria contradict, each with the criterion.
  std::vector<std::string> contradictions() const;
};

/// The lesson as a page that opens without a network: text, words linked to the glossary at its end, and the page or
/// picture of each run. `data`: the JSON that --json writes.
std::string lesson_page(const LessonAnswer&, const std::vector<GlossaryWord>&, nlohmann::ordered_json data);

}  // namespace trainyard
