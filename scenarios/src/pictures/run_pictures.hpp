#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// A number of GPUs and their rate.
struct GpusAndRate {
  double gpus = 0, rate = 0;  ///< rate: samples/s
};

/// The measured points of one curve.
struct ScalingCurve {
  std::string name;  ///< name in the legend; may be empty
  std::vector<GpusAndRate> points;
};

/// Draws rate over GPUs as SVG, with logarithmic axes. All curves begin at `baseline`. A further line shows ideal
/// scaling: the rate per GPU of the baseline.
std::string scaling_picture(const std::string& title, const std::vector<ScalingCurve>&, const GpusAndRate& baseline);

/// Changes the options of a run so that it records the data of an HTML page's pictures and writes them into `pictures`.
/// If nothing is simulated, `pictures` stays null. Otherwise it has:
/// - `left_out`: why there is no timeline (a step of more than kMostKept operations is not drawn over time); or
///   `timeline`: `tick_s`, `end` and all times in ticks, `tones`, `names`, `ranks` with their lanes and memory (see the
///   code for its lists of numbers), and the critical `path`;
/// - `machine`: a drawing (SVG) of the node of the rank that ends last, each cable with the share of time in which it
///   is busy, and `links`: classes of equal links with the bytes that they carry.
void draw_run(const Scenario&, const Plan&, SimulateOptions&, const std::shared_ptr<nlohmann::ordered_json>& pictures);

}  // namespace trainyard
