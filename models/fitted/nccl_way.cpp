#include "models/fitted/nccl_way.hpp"

namespace trainyard {

std::array<Seconds, 3> staying_times(const NcclInside& inside, Bytes bytes) {
  std::array<Seconds, 3> times{};
  for (std::size_t p = 0; p < times.size(); ++p)
    if (inside.protocols[p].rate.value > 0) times[p] = bytes / inside.protocols[p].rate;
  return times;
}

bool sends_by_pairs(NcclOperation operation) {
  return operation == NcclOperation::alltoall || operation == NcclOperation::sendrecv ||
         operation == NcclOperation::gather || operation == NcclOperation::scatter;
}

}  // namespace trainyard
