#include "strategies/failures/long_run.hpp"

#include <cmath>
#include "sim/hashing.hpp"

namespace trainyard {

Seconds time_between_failures(const std::vector<FailingParts>& parts) {
  double rate = 0;
  for (const FailingParts& part : parts) rate += part.count / part.mtbf.value;
  return Seconds{rate > 0 ? 1 / rate : 0};
}

UniformDraws seeded_draws(std::uint64_t seed) {
  return [seed](std::uint64_t counter) { return static_cast<double>(hash_numbers({seed, counter}) >> 11) * 0x1p-53; };
}

Seconds DrawnFailures::next() {
  const Seconds after = mean_interval_ * -std::log1p(-draws_(2 * drawn_));
  ++drawn_;
  return after;
}

const FailingParts& DrawnFailures::part() const {
  double remaining = draws_(2 * drawn_ - 1);
  for (const FailingParts& part : parts_) {
    remaining -= part.count / part.mtbf.value * mean_interval_.value;
    if (remaining < 0) return part;
  }
  return parts_.back();
}

}  // namespace trainyard
