#pragma once
#include <string>

#include "scenarios/src/search/loop_search.hpp"

namespace trainyard {

/// The answer on one screen: the best placement of a post-training loop, and a table of the others.
/// `most_rows`: number of placements in the table.
std::string loop_plan_screen(const LoopAnswer&, std::size_t most_rows);

}  // namespace trainyard
