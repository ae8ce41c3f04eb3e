#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

/// Parts of one kind that fail independently, each after exponentially distributed times.
struct FailingParts {
  std::string name;  ///< "gpu", "node", "nic", "switch", "software", …
  double count = 1;  ///< number of such parts
  Seconds mtbf;      ///< mean time between failures of one part
  /// True if the failure takes its node away: a spare takes over, or training goes on without its replica.
  bool takes_node = false;
  int workers = 0;        ///< number of asynchronous workers that are lost while the others go on; 0: training stops
  bool survived = false;  ///< another part takes over once the failure is detected: only the current step is lost
};

/// Mean time between any two failures; 0 if nothing fails at random.
Seconds time_between_failures(const std::vector<FailingParts>&);

/// Returns a number in [0, 1) for each counter. It is the same on every machine and does not depend on the order of
/// calls.
using UniformDraws = std::function<double(std::uint64_t counter)>;
UniformDraws seeded_draws(std::uint64_t seed);

/// Draws one failure after another, with two draws each: one for the time and one for the kind of part.
class DrawnFailures {
 public:
  DrawnFailures(const std::vector<FailingParts>& parts, const UniformDraws& draws)
      : parts_(parts), draws_(draws), mean_interval_(time_between_failures(parts)) {}

  bool has_failures() const { return mean_interval_.value > 0; }
  Seconds mean_interval() const { return mean_interval_; }  ///< mean time between two failures
  /// Draws the next failure, and returns the time since the one before.
  Seconds next();
  /// The part that fails in the last drawn failure. Parts are drawn in proportion to their failure rates.
  const FailingParts& part() const;

 private:
  const std::vector<FailingParts>& parts_;
  const UniformDraws& draws_;
  const Seconds mean_interval_;
  std::uint64_t drawn_ = 0;
};

}  // namespace trainyard
