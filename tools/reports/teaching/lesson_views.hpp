#pragma once
#include <string>

#include "scenarios/src/lessons/teach_collective.hpp"

namespace trainyard {

/// All steps for a terminal of 100 columns; `colour`: with its escape codes.
std::string lesson_text(const CollectiveLesson&, bool colour);
/// One page that stands alone: steps forward and back by buttons and arrow keys, and plays them.
std::string lesson_html(const CollectiveLesson&);
/// All steps in one picture, a frame each.
std::string lesson_svg(const CollectiveLesson&);

/// What the views share: "all-reduce (sum) by ring, 4 ranks, 4.19 MB".
std::string lesson_title(const CollectiveLesson&);
/// "reducing", "copying", "reducing and copying"; "" where no data move.
std::string step_kind(const LessonStep&);
/// What limits the step: a link, and how many more; "" if none does.
std::string step_limit(const LessonStep&);
/// The figures at the end, a sentence each.
std::vector<std::string> lesson_sums(const CollectiveLesson&);

}  // namespace trainyard
