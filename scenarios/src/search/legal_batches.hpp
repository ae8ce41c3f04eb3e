#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_question.hpp"
#include "scenarios/src/search/plan_space.hpp"

namespace trainyard {

/// The numbers of data-parallel replicas that remain when a model is split over a cluster in all legal ways, for any
/// batch.
struct LegalSplits {
  std::int64_t gpus = 0;
  std::vector<std::int64_t> replicas;  ///< possible numbers of replicas, ascending, each once
  std::string refusal;                 ///< if there are none: why the first candidate is no plan

  /// Returns how many of these numbers divide the batch. 0: no plan has this batch.
  std::size_t dividing(std::int64_t batch) const;
  /// Returns the batch from `least` to `most` that the most of these numbers divide; of several, the nearest to
  /// `wanted`. 0: no batch is divisible.
  std::int64_t best_batch(std::int64_t wanted, std::int64_t least, std::int64_t most) const;
  /// Returns at most `most_of` batches from `least` to `most` that may have the best plan. `wanted` comes first if it
  /// has a plan; the others follow by their number of divisors, the most first. A batch is left out if a larger one
  /// divides among all the same replicas and micro-batches.
  std::vector<std::int64_t> promising_batches(std::int64_t wanted, std::int64_t least, std::int64_t most,
                                              std::size_t most_of) const;
  /// Explains why no plan has this batch, and names near batches that have plans.
  std::string why_none(std::int64_t batch) const;
};

/// Returns the splits of the plan space that the scenario reader accepts. Throws UserError.
LegalSplits legal_splits(const PlanQuestion&, const PlanSpaceOptions&);

}  // namespace trainyard
