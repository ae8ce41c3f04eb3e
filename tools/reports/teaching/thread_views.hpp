#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/teach_threads.hpp"

namespace trainyard {

/// A row a thread, time from left to right, for a terminal of 100 columns.
std::string thread_text(const ThreadLesson&);
/// The same as a picture: a cell a function of an item.
std::string thread_svg(const ThreadLesson&);
/// One page that stands alone: the picture and the figures.
std::string thread_html(const ThreadLesson&);

/// What the views share: "a loop of 3 items on 4 threads".
std::string thread_title(const ThreadLesson&);
/// The figures at the end, a sentence each.
std::vector<std::string> thread_sums(const ThreadLesson&);

}  // namespace trainyard
