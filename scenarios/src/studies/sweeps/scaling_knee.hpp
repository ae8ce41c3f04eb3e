#pragma once
#include <vector>

#include "scenarios/src/pictures/scaling_picture.hpp"

namespace trainyard {

/// How far more GPUs help.
struct ScalingKnee {
  GpusAndRate fastest;  ///< the point of the highest rate
  GpusAndRate half;     ///< the last point up to which each step gives half of what it would ideally add, or more
  bool last = true;     ///< the fastest point is the last one: more may help
};

/// Of one point at least, by rising numbers of GPUs.
ScalingKnee knee_of(const std::vector<GpusAndRate>&);

}  // namespace trainyard
