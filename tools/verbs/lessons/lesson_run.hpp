#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/src/lessons/course_files.hpp"

namespace trainyard {

/// A temporary folder for the files that a command reads and writes. The destructor removes it with its files. Throws
/// UserError.
class AnswerFolder {
 public:
  AnswerFolder();
  ~AnswerFolder();
  AnswerFolder(const AnswerFolder&) = delete;
  AnswerFolder& operator=(const AnswerFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string text(const std::string& name) const;  ///< contents of the file; "" if there is no such file

 private:
  std::filesystem::path path_;
};

/// The answer of a trainyard command: the text on its screen, its JSON, and its picture or page.
struct CommandAnswer {
  std::string screen, json, picture;
};

/// Runs a trainyard command in this process ("bench all_reduce --on dgx-a100"). Words that begin with "scenarios/" are
/// shipped files. Quotes hold words together. `picture`: the flag by which the verb draws (html, svg, picture); empty:
/// no picture. Throws the errors of the command, and Interruption.
CommandAnswer answer_of(const std::string& command, const std::string& picture = "");

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
