#pragma once
#include <string>

#include "strategies/plan/training_plan.hpp"
#include "tests/places.hpp"

namespace trainyard::test {

/// Gives the plan an all-reduce of the gradients of all ranks, which are in one node, by the named algorithm.
inline void all_reduce_by(TrainingPlan& plan, const std::string& algorithm, const CollectiveSettings& settings = {}) {
  LaneChoice gradients, others;
  gradients.settings = settings;
  gradients[Operation::all_reduce] = &collectives(Operation::all_reduce).find(algorithm, nowhere());
  make_lanes(plan, std::vector<int>(static_cast<std::size_t>(plan.ranks()), 0), gradients, others, nowhere());
}

}  // namespace trainyard::test
