#pragma once
#include <vector>

#include "scenarios/src/pictures/run_pictures.hpp"

namespace trainyard {

/// The numbers of GPUs up to which more GPUs help.
struct ScalingKnee {
  GpusAndRate fastest;  ///< the point of the highest rate
  GpusAndRate half;     ///< the last point up to which each increase of GPUs gives at least half of its ideal gain
  bool last = true;     ///< the fastest point is the last one: more may help
};

/// Finds the knee of at least one point. Points must be sorted by rising number of GPUs.
ScalingKnee knee_of(const std::vector<GpusAndRate>&);

}  // namespace trainyard
