#include "models/fitted/nccl_way.hpp"

namespace trainyard {

std::array<Seconds, 3> staying_times(const NcclInside& inside, Bytes bytes) {
  std::array<Seconds, 3> times{};
  for (std::size_t p = 0; p < times.size(); ++p)
    if (inside.protocols[p].rate.value > 0) times[p] = bytes / inside.protocols[p].rate;
  return times;
}

}  // namespace trainyard
