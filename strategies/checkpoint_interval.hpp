#pragma once
#include "strategies/long_run.hpp"

namespace trainyard {

/// How long to train between two checkpoints, of which one stops training for `cost`, where something fails once in
/// `mtbf`: Young 1974 (Communications of the ACM 17(9)), sqrt(2·mtbf·cost).
Seconds young_interval(Seconds mtbf, Seconds cost);
/// The same to a higher order: Daly 2006 (Future Generation Computer Systems 22(3), equation 37).
Seconds daly_interval(Seconds mtbf, Seconds cost);

struct BestInterval {
  Seconds young, daly;
  Seconds simulated;   ///< where simulated runs lose least
  double goodput = 0;  ///< there, of these runs
  double steps = 1;    ///< the same interval in whole steps
  struct Tried {
    Seconds interval;
    double goodput = 0;
  };
  std::vector<Tried> tried;  ///< what was simulated
};

/// Searches the interval by running `plan` with intervals from a third of Daly's to three times it, each through
/// the same thousands of drawn failures, and taking the top of a smooth curve through their losses. Failures that are
/// said and the plan's length and interval play no part. Throws UserError where nothing fails or checkpoints cost
/// nothing: there is no optimum then.
BestInterval best_interval(const LongRunPlan&);

}  // namespace trainyard
