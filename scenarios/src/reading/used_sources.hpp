#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Returns the sources of the figures that the scenario's answer depends on.
Sources sources_of(const Scenario&);

}  // namespace trainyard
