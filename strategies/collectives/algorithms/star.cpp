// All data pass over the link of rank 0: the root, the master, or a server.
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// `&Local::send`: rank 0 sends to one rank after another. `&Local::send_at_once`: to all at the same time, so that one
/// latency is paid and its link is shared.
using Send = const Op& (Local::*)(int peer, const Chunk&, Dep also);
constexpr Send kInTurn = &Local::send, kAtOnce = &Local::send_at_once;

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
template <Send send>
Ops root_scatter(Local me, Bytes) {
  if (me.index() > 0) co_yield me.recv_copy(0, me.block(me.index()));
  for (int other = 1; me.index() == 0 && other < me.group_size(); ++other)
    co_yield (me.*send)(other, me.block(other), {});
}

/// n−1 messages of `size`/n.
template <Send send>
Ops root_gather(Local me, Bytes) {
  if (me.index() > 0) co_yield (me.*send)(0, me.block(me.index()), {});
  for (int other = 1; me.index() == 0 && other < me.group_size(); ++other)
    co_yield me.recv_copy(other, me.block(other));
}

/// Rank 0 receives from all others, then sends to them: 2(n−1) messages without bytes.
Ops sequential_barrier(Local me, Bytes size) {
  const Local nothing = me.restrict_to({});
  co_yield sequential_reduce(nothing, size);
  co_yield sequential_broadcast(nothing, size);
}

/// The master adds up the data of all others, then sends the sum back: 2(n−1) messages of `size`. At once it is a
/// parameter server (Li et al. 2014): all others push their data at the same time, then pull the sum. Two rounds, but
/// (n−1) · `size` go into the server and out of it.
template <Send send>
Ops master_all_reduce(Local me, Bytes) {
  if (me.index() > 0) {
    co_yield (me.*send)(0, me.whole_chunk(), {});
    co_yield me.recv_copy(0, me.whole_chunk());
    co_return;
  }
  for (int other = 1; other < me.group_size(); ++other) co_yield me.recv_reduce(other, me.whole_chunk());
  for (int other = 1; other < me.group_size(); ++other) co_yield (me.*send)(other, me.whole_chunk(), {});
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

const RegisterCollective registered_stars[] = {
    {Operation::broadcast, {.name = "sequential", .peers = star_peers, .run = sequential_broadcast}},
    {Operation::reduce, {.name = "sequential", .peers = star_peers, .run = sequential_reduce}},
    {Operation::scatter, {.name = "sequential", .peers = star_peers, .run = root_scatter<kInTurn>}},
    {Operation::scatter, {.name = "direct", .peers = star_peers, .run = root_scatter<kAtOnce>}},
    {Operation::gather, {.name = "sequential", .peers = star_peers, .run = root_gather<kInTurn>}},
    {Operation::gather, {.name = "direct", .peers = star_peers, .run = root_gather<kAtOnce>}},
    {Operation::barrier, {.name = "sequential", .peers = star_peers, .run = sequential_barrier}},
    {Operation::all_reduce, {.name = "gather-broadcast", .peers = star_peers, .run = master_all_reduce<kInTurn>}},
    // A sequential reduce followed by a sequential broadcast does the same; complexity tables use that name.
    {Operation::all_reduce, {.name = "sequential", .peers = star_peers, .run = master_all_reduce<kInTurn>}},
    {Operation::all_reduce, {.name = "parameter-server", .peers = star_peers, .run = master_all_reduce<kAtOnce>}},
    {Operation::all_gather, {.name = "gather-broadcast", .peers = star_peers, .run = gather_broadcast_all_gather}}};

}  // namespace
}  // namespace trainyard
