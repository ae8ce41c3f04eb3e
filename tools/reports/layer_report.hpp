#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/studies/layer_costs.hpp"

namespace trainyard {

/// Layers in a table, neighbours that cost the same in one row, and how their sum comes to the simulated compute of the
/// step.
std::string layer_costs_text(const Scenario&, const LayerCosts&, const Result&);
/// The same: `layers` of {layer, count, forward_s, backward_s, forward_FLOPs, backward_FLOPs, bytes, FLOP_per_byte,
/// bound, share}, and the parts of the step in seconds.
nlohmann::ordered_json layer_costs_json(const LayerCosts&, const Result&);

}  // namespace trainyard
