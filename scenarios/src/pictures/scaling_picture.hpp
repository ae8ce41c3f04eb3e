#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// A number of GPUs and what they do.
struct GpusAndRate {
  double gpus = 0, rate = 0;  ///< rate: samples/s
};

/// Points of one kind of scaling.
struct ScalingCurve {
  std::string name;  ///< in the legend; may be empty
  std::vector<GpusAndRate> points;
};

/// Rate over GPUs, both logarithmic, of several curves that begin at `baseline`, beside the line of as much for each GPU as
/// there. As SVG.
std::string scaling_picture(const std::string& title, const std::vector<ScalingCurve>&, const GpusAndRate& baseline);

}  // namespace trainyard
