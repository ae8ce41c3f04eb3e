#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_question.hpp"
#include "scenarios/src/search/plan_space.hpp"

namespace trainyard {

/// The ways to split a model over a cluster, whatever the batch: which numbers of data-parallel replicas they leave.
struct LegalSplits {
  std::int64_t gpus = 0;
  std::vector<std::int64_t> replicas;  ///< each once, the fewest first
  std::string refusal;                 ///< where there is none: why the first that was tried is no plan

  /// How many of these numbers divide it: 0, and no plan has this batch.
  std::size_t dividing(std::int64_t batch) const;
  /// Of the batches between the two, the one that divides among the most of these numbers, and of those the nearest to
  /// `wanted`; 0: none does.
  std::int64_t best_batch(std::int64_t wanted, std::int64_t least, std::int64_t most) const;
  /// Batches between the two that have plans and may have the best: `wanted` first if it does, and those of which no
  /// larger one divides among all the replicas and micro-batches that they do, the one of most ways first; `most_of` them.
  std::vector<std::int64_t> promising_batches(std::int64_t wanted, std::int64_t least, std::int64_t most,
                                              std::size_t most_of) const;
  /// Why no plan has this batch, and which batches near it have some.
  std::string why_none(std::int64_t batch) const;
};

/// Of the space's splits those that the reader of scenarios accepts. Throws UserError.
LegalSplits legal_splits(const PlanQuestion&, const PlanSpaceOptions&);

}  // namespace trainyard
