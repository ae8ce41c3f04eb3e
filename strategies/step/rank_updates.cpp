#include "strategies/step/rank_updates.hpp"

namespace trainyard {

Ops RankUpdates::after_backward(int) {
  co_yield parts_.gradients.finish();
  co_yield parts_.parameters.update();
}

std::unique_ptr<RankUpdates> UpdatePolicy::of_rank(const StepParts& parts) const {
  return std::make_unique<RankUpdates>(parts);
}

}  // namespace trainyard
