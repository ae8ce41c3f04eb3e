#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/numbered_files.hpp"

namespace trainyard {

/// The lessons about a word, the nearest first, with why each was found: its name or alias, its title, the glossary, or
/// its text. Throws UserError if there are none, with the nearest word that finds some.
std::string found_lessons(const std::vector<NumberedFile>&, const std::string& word);

}  // namespace trainyard
