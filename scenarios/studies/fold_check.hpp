#pragma once
#include <string>

#include "scenarios/planning/plan.hpp"

namespace trainyard {

/// A scenario's steps simulated twice, with ranks that are alike folded into one, and rank by rank.
struct FoldCheck {
  int ranks = 0, classes = 0;
  double operations = 0;   ///< compared, of all ranks
  double worst = 0;        ///< largest difference of a time or an amount, relative
  std::string difference;  ///< the first one above 1e-9, with both figures; "": none
  std::string unfolded;    ///< why nothing was folded; "": it was
  bool good() const { return unfolded.empty() && difference.empty(); }
};

/// Compares when every operation of every rank ends, how long each of its streams is busy, what each link carries, and
/// each rank's peak of memory. A result that is missing in one
/// of both runs is a difference. Each runs in a child.
FoldCheck check_folding(const Scenario&, const Plan&);

}  // namespace trainyard
