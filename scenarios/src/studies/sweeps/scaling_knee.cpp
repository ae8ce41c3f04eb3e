#include "scenarios/src/studies/sweeps/scaling_knee.hpp"

namespace trainyard {
namespace {

/// Least share of the ideal gain of added GPUs.
constexpr double kHalfHelps = 0.5;

}  // namespace

ScalingKnee knee_of(const std::vector<GpusAndRate>& points) {
  ScalingKnee knee{points.front(), points.front(), true};
  bool still = true;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].rate > knee.fastest.rate) knee.fastest = points[i];
    const double added = points[i].rate / points[i - 1].rate - 1, ideal = points[i].gpus / points[i - 1].gpus - 1;
    still = still && added >= kHalfHelps * ideal;
    if (still) knee.half = points[i];
  }
  knee.last = knee.fastest.gpus == points.back().gpus;
  return knee;
}

}  // namespace trainyard
