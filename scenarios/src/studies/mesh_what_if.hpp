#pragma once
#include <optional>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// Simulates the step with pipeline ranks before data ranks in `plan.mesh_order` if nodes lie at different sites (a message
/// takes at least a millisecond one way) and pipelines then cross fewer of them. No value: that does not hold, or the plan
/// states an order. Of the options it uses transport, folding, and whether a critical path is found. A refused order is added to `refused`.
std::optional<WhatIf> mesh_what_if(const Scenario&, const SimulateOptions&, std::vector<RefusedWhatIf>& refused);

}  // namespace trainyard
