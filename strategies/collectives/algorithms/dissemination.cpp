#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// Barrier (Hensgen, Finkel & Manber 1988): in step k each rank sends to the rank 2^k places ahead, which then knows
/// of twice as many arrivals. ⌈log2 n⌉ steps for any n; n messages without bytes in each.
Ops dissemination_barrier(Local me, Bytes) {
  const int n = me.group_size();
  for (int distance = 1; distance < n; distance *= 2) {
    co_yield me.send((me.index() + distance) % n, {});
    co_yield me.recv_copy((me.index() + n - distance) % n, {});
    co_yield me.phase();
  }
}

TRAINYARD_COLLECTIVE("dissemination", Operation::barrier, power_of_two_peers, dissemination_barrier, .steady = true,
                     .role = all_alike);

}  // namespace
}  // namespace trainyard
