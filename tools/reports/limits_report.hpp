#pragma once
#include <string>

#include "scenarios/src/search/axis_limits.hpp"

namespace trainyard {

/// A table for each kind of parallelism, and in a line how far it helps.
std::string limits_screen(const AxisLimits&);

}  // namespace trainyard
