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
  double count = 1;
  Seconds mtbf;             ///< of one of them
  bool takes_node = false;  ///< its node leaves: a spare takes over, or the training goes on without its replica
  int workers = 0;        ///< asynchronous ones that are gone with it, while the others go on; 0: it stops the training
  bool survived = false;  ///< another one takes over once it is detected: no work is lost but the step under way
};

/// Mean time between any two failures; 0 where nothing fails at random.
Seconds time_between_failures(const std::vector<FailingParts>&);

/// A number in [0, 1) for each counter: the same on every machine, whatever the order in which they are asked for.
using UniformDraws = std::function<double(std::uint64_t counter)>;
UniformDraws seeded_draws(std::uint64_t seed);

/// One failure after another: two draws each, of when and of what.
class DrawnFailures {
 public:
  DrawnFailures(const std::vector<FailingParts>& parts, const UniformDraws& draws)
      : parts_(parts), draws_(draws), between_(time_between_failures(parts)) {}

  bool any() const { return between_.value > 0; }
  Seconds between() const { return between_; }  ///< mean
  /// Draws the next one: so long after the one before.
  Seconds next();
  /// What fails then: by its share of the rate.
  const FailingParts& part() const;

 private:
  const std::vector<FailingParts>& parts_;
  const UniformDraws& draws_;
  const Seconds between_;
  std::uint64_t drawn_ = 0;
};

}  // namespace trainyard
