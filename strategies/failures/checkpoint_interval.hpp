#pragma once
#include "strategies/failures/long_run.hpp"

namespace trainyard {

/// How long to train between two checkpoints, of which one stops training for `cost`, where something fails once in
/// `mtbf`: Young 1974 (Communications of the ACM 17(9)), sqrt(2·mtbf·cost).
Seconds young_interval(Seconds mtbf, Seconds cost);
/// The same to a higher order: Daly 2006 (Future Generation Computer Systems 22(3), equation 37), with M = mtbf, δ = cost:
/// sqrt(2δM)·(1 + sqrt(δ/2M)/3 + (δ/2M)/9) − δ below δ = 2M, else M. His figures 3 to 5 say 117, 57 and 9.1 min for
/// δ = 5 min and M = 24 h, 6 h and 15 min.
Seconds daly_interval(Seconds mtbf, Seconds cost);

/// Mean time between failures after which a checkpoint is read; 0: there are none. An elastic training whose replicas
/// hold the whole state does not lose it with a node.
Seconds time_between_losses(const std::vector<FailingParts>&, const Recovery&);

struct BestInterval {
  Seconds young, daly;
  Seconds shortest;     ///< a shorter one only waits for the write of the checkpoint before; 0: none does
  Seconds simulated;    ///< where simulated runs lose least
  double goodput = 0;   ///< there, of these runs
  double steps = 1;     ///< the same interval in whole steps
  Seconds from, until;  ///< between these the goodput is within `kNearBest` of that: how flat the optimum is
  struct Trial {
    Seconds interval;
    double goodput = 0;
  };
  std::vector<Trial> trials;  ///< what was simulated, from which the best is known
};
constexpr double kNearBest = 1e-3;

/// Searches the interval by running `plan` with intervals from a third of Daly's to three times it, each through
/// the same ten thousand failures, and taking the top of a smooth curve through their losses. Where failures strike
/// evenly in time that is the exact optimum within 1 %. Failures that are said and the plan's length and interval play
/// no part. Throws UserError where nothing that fails loses work, or checkpoints cost nothing: there is no optimum then.
BestInterval best_interval(const LongRunPlan&);

}  // namespace trainyard
