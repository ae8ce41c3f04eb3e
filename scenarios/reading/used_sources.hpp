#pragma once
#include "scenarios/reading/read_collective.hpp"
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// Sources of the figures that the scenario's answer depends on.
Sources sources_of(const Scenario&, const CollectiveChoice& all_reduce);

}  // namespace trainyard
