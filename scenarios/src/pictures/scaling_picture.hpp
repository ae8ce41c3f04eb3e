#pragma once
#include <string>
#include <vector>

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

}  // namespace trainyard
