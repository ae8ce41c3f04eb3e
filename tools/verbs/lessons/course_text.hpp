#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/numbered_files.hpp"

namespace trainyard {

/// A label with a paragraph, in the layout of the answers of `run`.
std::string labelled(const std::string& label, const std::string& text);
/// A list of the numbered files by group, a line for each: number, name and its cells. `cells`: in the order of the
/// files.
std::string numbered_list(const std::vector<NumberedFile>&, const std::vector<std::vector<std::string>>& cells);

}  // namespace trainyard
