#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_question.hpp"
#include "scenarios/src/search/plan_space.hpp"

namespace trainyard {

/// The numbers of data-parallel replicas that a cluster can have, by all legal ways to split the model. They do not
/// depend on the batch.
struct LegalSplits {
  std::int64_t gpus = 0;
  std::vector<std::int64_t> replicas;  ///< possible numbers of replicas, ascending, each once
  std::string refusal;                 ///< if there are no replicas: why the first candidate is no plan

  /// Returns how many of the numbers of replicas divide the batch. 0: no plan has this batch.
  std::size_t dividing(std::int64_t batch) const;
  /// Returns the batch from `least` to `most` that most numbers of replicas divide. Of several such batches, it returns
  /// the nearest to `wanted`. 0: no number of replicas divides any of them.
  std::int64_t best_batch(std::int64_t wanted, std::int64_t least, std::int64_t most) const;
  /// Returns at most `most_batches` batches from `least` to `most` that may have the best plan. `wanted` comes first if
  /// it has a plan; the others follow by their number of divisors, the most first. A batch is left out if a larger one
  /// has all its divisors.
  std::vector<std::int64_t> promising_batches(std::int64_t wanted, std::int64_t least, std::int64_t most,
                                              std::size_t most_batches) const;
  /// Explains why no plan has this batch, and names near batches that have plans.
  std::string why_none(std::int64_t batch) const;
};

/// Returns the splits of the plan space that the scenario reader accepts. Throws UserError.
LegalSplits legal_splits(const PlanQuestion&, const PlanSpaceOptions&);

}  // namespace trainyard
