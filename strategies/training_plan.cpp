#include "strategies/training_plan.hpp"

#include <algorithm>

namespace trainyard {

std::vector<int> zero_group(const TrainingPlan& plan, int rank, bool experts) {
  const std::vector<int> all = experts ? plan.mesh.expert_replicas(rank) : plan.mesh.replicas(rank);
  const auto size = static_cast<std::ptrdiff_t>(all.size());
  const std::ptrdiff_t share = plan.zero_group > 0 ? std::min<std::ptrdiff_t>(plan.zero_group, size) : size;
  const auto first = (std::find(all.begin(), all.end(), rank) - all.begin()) / share * share;
  return {all.begin() + first, all.begin() + std::min(first + share, size)};
}

}  // namespace trainyard
