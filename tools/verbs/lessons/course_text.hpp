#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/course_reading.hpp"

namespace trainyard {

/// A label with a paragraph, in the layout of the answers of `run`.
std::string labelled(const std::string& label, const std::string& text);
/// A list of the numbered files by group, a line for each: number, name and its cells. `cells`: in the order of the
/// files.
std::string numbered_list(const std::vector<NumberedFile>&, const std::vector<std::vector<std::string>>& cells);

/// The lessons about a word, the nearest first, with why each was found: its name or alias, its title, the glossary, or
/// its text. Throws UserError if there are none, with the nearest word that finds some.
std::string found_lessons(const std::vector<NumberedFile>&, const std::string& word);

}  // namespace trainyard
