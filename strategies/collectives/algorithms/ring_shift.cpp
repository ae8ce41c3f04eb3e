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

}  // namespace
}  // namespace trainyard
