#pragma once
#include <string>

#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// A scenario's steps simulated twice, with ranks that are alike folded into one, and rank by rank.
struct FoldCheck {
  int ranks = 0, classes = 0;
  double operations = 0;   ///< compared, of all ranks
  double worst = 0;        ///< largest difference of a time or an amount, relative
  std::string difference;  ///< the first one above 1e-9, with both figures; "": none
  /// Where there is a difference of a time: `rounding_sensitivity` of the step rank by rank.
  double sensitivity = 0;
  std::string unfolded;  ///< why nothing was folded; "": it was
  /// The step is so sensitive to rounding that no two orders of summing rates give the same: the difference tells
  /// nothing of the fold.
  bool rounding_decides() const { return sensitivity > 1e-9 && worst < 10 * sensitivity; }
  bool good() const { return unfolded.empty() && (difference.empty() || rounding_decides()); }
};

/// Compares when every operation of every rank ends, how long each of its streams is busy, what each link carries,
/// each rank's peak of memory, and the critical path by resource. A result that is missing in one of both runs is a difference of 1.
FoldCheck check_folding(const Scenario&, const Plan&);

}  // namespace trainyard
