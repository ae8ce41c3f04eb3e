#pragma once
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// The one-screen answer of `run`: step, breakdown, memory, bottleneck and next change, trust.
std::string screen(const Scenario&, const Plan&, const Result&, const std::vector<WhatIf>&);
/// The table of what-ifs, largest saving first.
std::string what_if_table(const Result&, const std::vector<WhatIf>&);
/// What there is room for, in one line.
std::string capacity_line(const Capacity&);
/// The error to expect, and how many figures were not checked.
std::string trust_lines(const Scenario&);
/// Every figure with its source, a line each.
std::string source_table(const Sources&);

}  // namespace trainyard
