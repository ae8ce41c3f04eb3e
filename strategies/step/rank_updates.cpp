#include "strategies/step/rank_updates.hpp"

namespace trainyard {

Ops RankUpdates::after_backward(int) {
  co_yield parts_.gradients.finish();
  co_yield parts_.parameters.update();
}

}  // namespace trainyard
