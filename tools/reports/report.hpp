#pragma once
#include <string>
#include <vector>

#include "scenarios/answer/result.hpp"
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// The one-screen answer of `run`: step, breakdown, memory, bottleneck and next change, trust.
std::string screen(const Scenario&, const Result&, const std::vector<WhatIf>&);
/// The table of what-ifs, largest saving first.
std::string what_if_table(const Result&, const std::vector<WhatIf>&);
/// What there is room for, in one line.
std::string capacity_line(const Capacity&);
/// What the figures stand on: sources by name, how many are fitted, which are unverified.
std::string trust_lines(const Scenario&);
/// Every figure with its source, a line each.
std::string source_table(const Sources&);

}  // namespace trainyard
