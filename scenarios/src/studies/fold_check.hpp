#pragma once
#include <cmath>
#include <optional>
#include <string>

#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// The comparison of two simulations of a scenario: with equivalent ranks folded, and rank by rank.
struct FoldCheck {
  int ranks = 0, classes = 0;
  double operations = 0;   ///< number of compared operations of all ranks
  double worst = 0;        ///< largest relative difference of a time or an amount
  std::string difference;  ///< the first difference above 1e-9, with both figures; "": none
  /// Time in s at which the run rank by rank first differs: an operation ends there or is missing. No value: all end at
  /// the same times.
  std::optional<double> first_difference;
  /// The time at which a run rank by rank of a scenario that `barely_faster` returns first differs, if it comes before
  /// `first_difference`. No value: none does.
  std::optional<double> first_by_rounding;
  std::string unfolded_reason;  ///< why nothing was folded; "": ranks were folded
  /// The ranks that share drawn slow-downs (see `SlowestReplicas`), in words; empty: no draws are shared. `draws_time`
  /// and `draws_energy` are relative differences of the step from a run in which each rank has its own draws.
  std::string shared_draws;
  double draws_time = 0, draws_energy = 0, most_of_draws = 0;  ///< most_of_draws: largest expected `draws_time`
  /// The sentence that says that a last pod counts as full (see `FullPods`); empty: it cannot. `pods_time`: relative
  /// difference of the step from the run of every rank.
  std::string full_pods;
  double pods_time = 0, most_of_pods = 0;  ///< most_of_pods: largest `pods_time`
  /// Returns true if the step is so sensitive to rounding that a change of 1e-13 in one rate, which is many times the
  /// rounding of a sum, makes it differ before the fold does. Then the difference proves nothing about folding: two
  /// orders of summing rates differ, too.
  bool rounding_decides() const { return first_by_rounding.has_value(); }
  /// Returns true if the fold changes nothing, and shared draws no more of the step than expected. It does not judge
  /// `draws_energy`, because no bound of it is known: a random scenario has 15 % while `draws_time` is near 0.
  bool good() const {
    return (unfolded_reason.empty() || !full_pods.empty()) && (difference.empty() || rounding_decides()) &&
           std::abs(draws_time) <= most_of_draws && std::abs(pods_time) <= most_of_pods;
  }
};

/// Compares the end of every operation of every rank, the busy time of each stream, the bytes on each link, each rank's
/// peak memory, and the critical path by resource. A result that is missing in one of the two runs is a difference of
/// 1.
FoldCheck check_folding(const Scenario&, const Plan&);

}  // namespace trainyard
