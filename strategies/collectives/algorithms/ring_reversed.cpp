#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

/// The ring in the opposite direction: each rank sends to the previous member and receives from the next.
Local turned_round(const Local& me) { return me.renumber(Numbering(me.group_size()).reverse()); }

Ops ring_reversed_all_reduce(Local me, Bytes) { return one_ring_all_reduce(turned_round(me)); }
Ops ring_reversed_reduce_scatter(Local me, Bytes) { return one_ring_reduce_scatter(turned_round(me)); }
Ops ring_reversed_all_gather(Local me, Bytes) { return one_ring_all_gather(turned_round(me)); }

TRAINYARD_COLLECTIVE("ring-reversed", Operation::all_reduce, ring_peers, ring_reversed_all_reduce, .steady = true,
                     .for_teaching = true, .role = all_alike);
TRAINYARD_COLLECTIVE("ring-reversed", Operation::reduce_scatter, ring_peers, ring_reversed_reduce_scatter,
                     .steady = true, .for_teaching = true, .role = all_alike);
TRAINYARD_COLLECTIVE("ring-reversed", Operation::all_gather, ring_peers, ring_reversed_all_gather, .steady = true,
                     .for_teaching = true, .role = all_alike);

}  // namespace
}  // namespace trainyard
