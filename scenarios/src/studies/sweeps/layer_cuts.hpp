#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Every way to divide the layers of a scenario among its pipeline stages (or model chunks), one layer at least each, as
/// values of `plan.pipeline.layers`. Throws UserError for more ways than a sweep may have.
std::vector<std::string> layer_cuts(const Scenario&);

}  // namespace trainyard
