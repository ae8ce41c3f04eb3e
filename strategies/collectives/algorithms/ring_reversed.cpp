#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

/// The ring turned round: everybody sends to the previous and receives from the next member.
Ops ring_reversed_all_reduce(Local me, Bytes) {
  return one_ring_all_reduce(me.numbered(Numbering(me.group_size()).reversed()));
}

TRAINYARD_COLLECTIVE("ring-reversed", Operation::all_reduce, ring_peers, ring_reversed_all_reduce, .steady = true,
                     .for_teaching = true);

}  // namespace
}  // namespace trainyard
