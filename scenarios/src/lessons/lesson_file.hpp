#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/figures.hpp"
#include "scenarios/src/lessons/numbered_files.hpp"

namespace trainyard {

/// A command line of trainyard's own verbs, without the program's name; `{this}` in it has become the lesson's file.
struct LessonRun {
  std::string name;  ///< by which sentences name its figures; empty: the only one, whose figures have no prefix
  std::string command;
  std::string picture;  ///< the flag by which it draws: "html", "svg", "picture"; empty: it does not
};

/// A sentence and where it was written.
struct LessonText {
  std::string text;
  Place place;
  std::string command = {};  ///< of a change: the command that makes it
};

/// The section `lesson` of a file; the rest of it, if there is any, is a scenario.
struct Lesson {
  NumberedFile file;
  std::string title, shows;
  std::vector<LessonRun> runs;
  std::vector<LessonText> says;    ///< with {figures} of the runs
  std::vector<LessonText> look;    ///< what to look at
  std::vector<LessonText> change;  ///< what to change
  std::vector<Criterion> holds;    ///< what makes the lesson right
};
Lesson read_lesson(const NumberedFile&);

}  // namespace trainyard
