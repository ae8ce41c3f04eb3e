

#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// Each rank sends all its data to the next rank and receives those of the previous one (nccl-tests' sendrecv): one
/// step, n messages of `size`. Data arrive in a scratch copy, because the rank's own data are still being sent.
Ops ring_shift_send_recv(Local me, Bytes) {
  const Chunk theirs = Local::scratch(me.whole_chunk());
  co_yield me.send(me.next(), me.whole_chunk());
  co_yield me.recv_copy(me.previous(), theirs);
  co_yield me.copy(theirs, me.whole_chunk());
}

TRAINYARD_COLLECTIVE("ring-shift", Operation::send_recv, ring_peers, ring_shift_send_recv, .steady = true,
                     .role = all_alike);

/// All-to-all round a ring, for machines in which only neighbours are linked: block j is for the rank j places ahead.
/// In step s each rank passes on the blocks that have s or more hops left, and keeps those that have come s hops. n−1
/// steps; each rank sends (n−1)/2 of `size`, so other algorithms are faster if all ranks are linked to each other.
Ops ring_all_to_all(Local me, Bytes) {
  const int n = me.group_size(), rank = me.index();
  for (int j = 0; j < n; ++j) co_yield me.copy(me.outgoing((rank + j) % n), Local::scratch(me.part(j, n), 2));
  co_yield me.copy(Local::scratch(me.part(0, n), 2), me.incoming(rank));
  for (int step = 1; step < n; ++step) {
    const int from = step % 2 == 1 ? 2 : 3, into = 5 - from;
    const Chunk on_the_way = me.whole_chunk().parts(step, n - step, n);
    co_yield me.send(me.next(), Local::scratch(on_the_way, from));
    co_yield me.recv_copy(me.previous(), Local::scratch(on_the_way, into));
    co_yield me.copy(Local::scratch(me.part(step, n), into), me.incoming((rank + n - step) % n));
  }
}

TRAINYARD_COLLECTIVE("ring", Operation::all_to_all, ring_peers, ring_all_to_all, .steady = true, .role = all_alike);

}  // namespace

}  // namespace trainyard
