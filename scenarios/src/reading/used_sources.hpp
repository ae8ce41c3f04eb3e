#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Sources of the figures that the scenario's answer depends on.
Sources sources_of(const Scenario&);

}  // namespace trainyard
