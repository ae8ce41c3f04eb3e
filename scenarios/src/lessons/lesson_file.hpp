#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/claims.hpp"
#include "scenarios/src/lessons/course_reading.hpp"

namespace trainyard {

/// A command line of `trainyard` without the program's name. `{this}` is already replaced by the lesson's file.
struct LessonRun {
  std::string name;  ///< prefix of its figures in sentences; empty: the only run, whose figures have no prefix
  std::string command;
  std::string picture;  ///< flag that makes it draw: "html", "svg", "picture"; empty: it does not draw
};

/// A change that readers may try.
struct LessonChange {
  std::string text;
  std::string command = {};  ///< the command that makes the change
};

/// The section `lesson` of a file. The rest of the file, if there is any, is a scenario.
struct Lesson {
  NumberedFile file;
  std::string title, shows;
  std::vector<std::string> aliases;  ///< other words by which readers look for it
  std::vector<LessonRun> runs;
  std::vector<Claim> says;  ///< sentences with {figures} of the runs
  std::vector<Claim> look;  ///< what to look at in the pictures
  std::vector<LessonChange> change;
};
Lesson read_lesson(const NumberedFile&);

}  // namespace trainyard
