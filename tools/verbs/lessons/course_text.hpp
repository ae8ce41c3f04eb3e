#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/numbered_files.hpp"

namespace trainyard {

/// A paragraph after its label, as the answers of `run` have it.
std::string labelled(const std::string& label, const std::string& text);
/// Numbered files by group, a line each: number, name and title (`titles`, in their order).
std::string numbered_list(const std::vector<NumberedFile>&, const std::vector<std::string>& titles);

}  // namespace trainyard
