// Sequential: the root exchanges data with one rank after another, n−1 steps over its one link. The all-reduce of that
// name is in gather_broadcast.cpp.
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// n−1 messages of `size`.
Ops sequential_broadcast(Local me, Bytes) {
  if (me.index() > 0) co_yield me.recv_copy(0, me.whole_chunk());
  for (int other = 1; me.index() == 0 && other < me.group_size(); ++other) co_yield me.send(other, me.whole_chunk());
}

/// n−1 messages of `size`, added up in the order of the ranks.
Ops sequential_reduce(Local me, Bytes) {
  if (me.index() > 0) co_yield me.send(0, me.whole_chunk());
  for (int other = 1; me.index() == 0 && other < me.group_size(); ++other)
    co_yield me.recv_reduce(other, me.whole_chunk());
}

/// n−1 messages of `size`/n.
Ops sequential_scatter(Local me, Bytes) {
  if (me.index() > 0) co_yield me.recv_copy(0, me.block(me.index()));
  for (int other = 1; me.index() == 0 && other < me.group_size(); ++other) co_yield me.send(other, me.block(other));
}

/// n−1 messages of `size`/n.
Ops sequential_gather(Local me, Bytes) {
  if (me.index() > 0) co_yield me.send(0, me.block(me.index()));
  for (int other = 1; me.index() == 0 && other < me.group_size(); ++other)
    co_yield me.recv_copy(other, me.block(other));
}

/// Rank 0 receives from all others, then sends to them: 2(n−1) messages without bytes.
Ops sequential_barrier(Local me, Bytes size) {
  const Local nothing = me.restrict_to({});
  co_yield sequential_reduce(nothing, size);
  co_yield sequential_broadcast(nothing, size);
}

TRAINYARD_COLLECTIVE("sequential", Operation::broadcast, star_peers, sequential_broadcast);
TRAINYARD_COLLECTIVE("sequential", Operation::reduce, star_peers, sequential_reduce);
TRAINYARD_COLLECTIVE("sequential", Operation::scatter, star_peers, sequential_scatter);
TRAINYARD_COLLECTIVE("sequential", Operation::gather, star_peers, sequential_gather);
TRAINYARD_COLLECTIVE("sequential", Operation::barrier, star_peers, sequential_barrier);

}  // namespace
}  // namespace trainyard
