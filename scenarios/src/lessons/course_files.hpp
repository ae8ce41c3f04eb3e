#pragma once
#include <string>
#include <utility>
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

/// Fields to set in a task's start scenario.
using TaskChanges = std::vector<std::pair<std::string, Node>>;

/// An answer that students are known to try, and that does not solve the task.
struct WrongAnswer {
  TaskChanges changes;
  std::string because;
};

/// The section `task` of a file. The rest of the file is the scenario to start from. In its sentences and criteria,
/// a figure with `start.` is one of the start scenario's answer. A figure with `mine.` or without a prefix is one of
/// the student's answer. `field["KEY"]` is the value of a key as the student wrote it.
struct Task {
  NumberedFile file;
  std::string title, level, lesson;
  std::vector<std::string> further_lessons;  ///< other lessons that the task exercises
  std::string command;                       ///< `{this}` in the command stands for the judged file
  std::string briefing;                      ///< the situation, with figures of the start scenario
  std::vector<std::string> objectives, hints, may_change;
  std::vector<Criterion> criteria;
  std::vector<Claim> explanation;  ///< sentences about the student's answer; only those that hold are shown
  std::string paper;               ///< the publication to read
  std::string reproduces;          ///< what was published, if the task reproduces a published run; else empty
  TaskChanges solution;
  std::vector<WrongAnswer> wrong;
  Place place;
  Node start;              ///< the start scenario, without the section `task`
  std::string start_text;  ///< text of the start scenario in the file
};
Task read_task(const NumberedFile&);

/// Returns the start scenario with these changes.
Node changed_start(const Task&, const TaskChanges&);
/// Returns true if the two scenarios are the same in each field.
bool have_same_fields(const Node&, const Node&);
/// Throws UserError if `mine` differs from the start scenario in a field that may not change. A section `task` in
/// `mine` is ignored; `node: NAME` and `node: {base: NAME}` are the same.
void require_allowed_changes(const Task&, const Node& mine);

}  // namespace trainyard
