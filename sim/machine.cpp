#include "sim/machine.hpp"

#include <algorithm>

namespace trainyard {

Seconds Route::fill_time() const {
  double sum = 0, slowest = 0;
  for (const Leg& leg : legs) {
    sum += leg.seconds_per_byte;
    slowest = std::max(slowest, leg.seconds_per_byte);
  }
  return Seconds{chunk.value * (sum - slowest)};
}

}  // namespace trainyard
