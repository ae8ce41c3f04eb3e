#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// Makes a run with these options keep what it draws, and fill `pictures` with what a page shows of the step besides its
/// answer. `pictures` stays null where nothing is simulated; else it has
/// - `left_out`: why there is no timeline (steps of more than kMostKept operations are not drawn over time); or
///   `timeline`: `tick_s`, `end` and all times in ticks, `tones`, `names`, `ranks` with their lanes and memory (see the
///   code for its lists of numbers), and the critical `path`;
/// - `machine`: a drawing (SVG) of the node of the rank that ends last, each cable with the share of time that it is
///   busy, and `links`: classes of equal links with what they carry.
void draw_run(const Scenario&, const Plan&, SimulateOptions&, const std::shared_ptr<nlohmann::ordered_json>& pictures);

}  // namespace trainyard
