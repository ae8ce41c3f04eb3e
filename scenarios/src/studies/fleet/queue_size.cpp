// The checkpoints of a training of a fleet while nothing interrupts it.
#include <algorithm>
#include <cmath>

#include "scenarios/src/studies/fleet/queue.hpp"

namespace trainyard {
namespace {

/// The checkpoints of an uninterrupted run of steps. Times are in s from its beginning.
struct CheckpointSeries {
  double count = 0, first = 0, period = 0, rest = 0;  ///< rest: time of the steps after the last checkpoint
  CheckpointSeries(const QueueSize& size, double steps) {
    const double every = size.checkpoint.interval_steps;
    count = every > 0 ? std::floor(steps / every) : 0;
    first = every * size.step.value;
    // A checkpoint waits until the previous one is written.
    period = std::max(first + size.checkpoint.stall.value, size.checkpoint.write.value);
    rest = (steps - count * every) * size.step.value;
  }
  double last() const { return first + (count - 1) * period; }  ///< beginning of the last checkpoint
  /// Returns the number of checkpoints that began at least `delay` before `elapsed`.
  double begun(double elapsed, double delay) const {
    const double since = elapsed - delay - first;
    return count == 0 || since < 0 ? 0 : std::min(count, std::floor(since / period) + 1);
  }
};

}  // namespace

Seconds QueueSize::time_of_steps(double steps) const {
  const CheckpointSeries series(*this, steps);
  if (series.count == 0) return steps * step;
  return Seconds{series.last() + std::max(checkpoint.stall.value + series.rest, checkpoint.write.value)};
}

QueueSize::Progress QueueSize::progress(double steps, Seconds elapsed) const {
  const CheckpointSeries series(*this, steps);
  const double begun = series.begun(elapsed.value, 0);
  Progress progress{elapsed, 0};
  if (begun == 0) return progress;
  const double since = elapsed.value - series.first - (begun - 1) * series.period - checkpoint.stall.value;
  progress.trained.value =
      begun * series.first + std::clamp(since, 0.0, begun < series.count ? series.first : series.rest);
  progress.saved_steps = series.begun(elapsed.value, checkpoint.write.value) * checkpoint.interval_steps;
  return progress;
}

}  // namespace trainyard
