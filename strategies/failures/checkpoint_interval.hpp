#pragma once
#include "strategies/failures/long_run.hpp"

namespace trainyard {

/// The best training time between two checkpoints, if a checkpoint stops training for `cost` and failures come once in
/// `mtbf` on average: Young 1974 (Communications of the ACM 17(9)), sqrt(2·mtbf·cost).
Seconds young_interval(Seconds mtbf, Seconds cost);
/// Returns the best interval to a higher order than Young: Daly 2006 (Future Generation Computer Systems 22(3),
/// equation 37), with M = mtbf, δ = cost: sqrt(2δM)·(1 + sqrt(δ/2M)/3 + (δ/2M)/9) − δ if δ < 2M, else M. His figures 3
/// to 5 give 117, 57 and 9.1 min for δ = 5 min and M = 24 h, 6 h and 15 min.
Seconds daly_interval(Seconds mtbf, Seconds cost);

/// Mean time between the failures after which a checkpoint is read; 0: there are no such failures. An elastic training
/// whose replicas hold the whole state does not lose it with a node.
Seconds time_between_losses(const std::vector<FailingParts>&, const Recovery&);

struct BestInterval {
  Seconds young, daly;
  /// Shorter intervals only wait for the write of the previous checkpoint; 0: no interval waits.
  Seconds shortest;
  Seconds simulated;   ///< the interval at which simulated runs lose least
  double goodput = 0;  ///< goodput of these runs at that interval
  int failures = 1;    ///< approximate number of failures in each of these runs
  double steps = 1;    ///< number of steps of that interval
  /// Range in which the goodput is within `kNearBest` of the best: it shows how flat the optimum is.
  Seconds range_begin, range_end;
  struct Trial {
    Seconds interval;
    double goodput = 0;
  };
  std::vector<Trial> trials;  ///< simulated runs from which the best is derived; empty: Daly's interval is the best
};
constexpr double kNearBest = 1e-3;

/// Searches for the best interval. Runs `plan` with intervals from a third of Daly's to three times Daly's, each
/// through the same failures (ten thousand, or fewer if there are many checkpoints), and takes the minimum of a smooth
/// curve through the losses. If failures are uniform in time, that is the exact optimum within 1 %. With 300 or more
/// checkpoints between two failures there is no search: Daly's interval is the best. The plan's prescribed failures,
/// length and interval are ignored. Throws UserError if nothing that fails loses work, or if checkpoints cost nothing:
/// there is no optimum then.
BestInterval best_interval(const LongRunPlan&);

}  // namespace trainyard
