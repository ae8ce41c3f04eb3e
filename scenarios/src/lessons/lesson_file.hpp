#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/figures.hpp"
#include "scenarios/src/lessons/numbered_files.hpp"

namespace trainyard {

/// A command line of `trainyard` without the program's name. `{this}` is already replaced by the lesson's file.
struct LessonRun {
  std::string name;  ///< prefix of its figures in sentences; empty: the only run, whose figures have no prefix
  std::string command;
  std::string picture;  ///< flag that makes it draw: "html", "svg", "picture"; empty: it does not draw
};

/// A sentence and its place in the file.
struct LessonText {
  std::string text;
  Place place;
  std::string command = {};  ///< for a suggested change: the command that makes it; else empty
};

/// The section `lesson` of a file. The rest of the file, if there is any, is a scenario.
struct Lesson {
  NumberedFile file;
  std::string title, shows;
  std::vector<LessonRun> runs;
  std::vector<LessonText> says;    ///< sentences with {figures} of the runs
  std::vector<LessonText> look;    ///< suggestions what to look at
  std::vector<LessonText> change;  ///< suggestions what to change
  std::vector<Criterion> holds;    ///< conditions under which the lesson's sentences are true
};
Lesson read_lesson(const NumberedFile&);

}  // namespace trainyard
