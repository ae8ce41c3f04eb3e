#pragma once
#include <string>

#include "scenarios/src/studies/comparison.hpp"

namespace trainyard {

/// A table with a line for each figure and a column for each scenario, and the parts of the step that differ. Loops
/// show the loop; figures of their training half are named so.
std::string comparison_screen(const Comparison&);

}  // namespace trainyard
