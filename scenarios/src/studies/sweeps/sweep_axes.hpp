#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Lists all divisions of a scenario's layers among its pipeline stages (or model chunks), with at least one layer
/// each, as values of `plan.pipeline.layers`. Throws UserError if there are more than a sweep may have.
std::vector<std::string> layer_cuts(const Scenario&);

}  // namespace trainyard
