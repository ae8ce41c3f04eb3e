#pragma once
#include <string>

#include "scenarios/src/search/size_search.hpp"

namespace trainyard {

/// Draws the table of thresholds as a tornado chart: a bar for each quantity, from its value to both thresholds. The
/// quantity that must move least is on top.
/// Needs a cheapest cluster.
std::string tornado_picture(const SizeAnswer&);

}  // namespace trainyard
