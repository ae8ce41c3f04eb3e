// Through rank 0 (the master), one rank at a time.
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// The master adds up the data of all others, then sends the sum back. 2(n−1) messages of `size`, all over the
/// master's link.
Ops gather_broadcast_all_reduce(Local me, Bytes) {
  if (me.index() > 0) {
    co_yield me.send(0, me.whole_chunk());
    co_yield me.recv_copy(0, me.whole_chunk());
    co_return;
  }
  for (int other = 1; other < me.group_size(); ++other) co_yield me.recv_reduce(other, me.whole_chunk());
  for (int other = 1; other < me.group_size(); ++other) co_yield me.send(other, me.whole_chunk());
}

/// n−1 messages of `size`/n in, then n−1 of `size` out.
Ops gather_broadcast_all_gather(Local me, Bytes) {
  if (me.index() > 0) {
    co_yield me.send(0, me.block(me.index()));
    co_yield me.recv_copy(0, me.whole_chunk());
    co_return;
  }
  for (int other = 1; other < me.group_size(); ++other) co_yield me.recv_copy(other, me.block(other));
  for (int other = 1; other < me.group_size(); ++other) co_yield me.send(other, me.whole_chunk());
}

TRAINYARD_COLLECTIVE("gather-broadcast", Operation::all_reduce, star_peers, gather_broadcast_all_reduce);
TRAINYARD_COLLECTIVE("gather-broadcast", Operation::all_gather, star_peers, gather_broadcast_all_gather);
/// A sequential reduce followed by a sequential broadcast does the same; complexity tables use that name.
const RegisterCollective register_sequential_all_reduce{
    Operation::all_reduce, {.name = "sequential", .peers = star_peers, .run = gather_broadcast_all_reduce}};

}  // namespace
}  // namespace trainyard
