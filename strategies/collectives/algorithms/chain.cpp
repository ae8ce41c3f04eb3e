// Along a chain. If the data are cut into P pieces (of the settings' chunk size) of time t each, a broadcast or reduce
// takes (n − 2 + P)·t: for many pieces hardly more than the data over one link, for any n.
#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

std::vector<int> chain_peers(GroupPlace place) { return peers_in(chain_place(place.index, place.size)); }

/// n−1 messages of `size`, beginning at rank 0.
Ops chain_broadcast(Local me, Bytes) { co_yield tree_broadcast(me, chain_place(me.index(), me.group_size())); }

/// n−1 messages of `size`; the sum moves towards rank 0.
Ops chain_reduce(Local me, Bytes) { co_yield tree_reduce(me, chain_place(me.index(), me.group_size())); }

/// Without pieces: the sum grows from rank to rank, and the last rank's result goes back the same way. 2(n−1) messages
/// of `size`, one after the other.
Ops chain_all_reduce(Local me, Bytes) {
  const int before = me.index() - 1, after = me.index() + 1;
  const bool first = before < 0, last = after == me.group_size();
  if (!first) co_yield me.recv_reduce(before, me.whole_chunk());
  if (!last) {
    co_yield me.send(after, me.whole_chunk());
    co_yield me.recv_copy(after, me.whole_chunk());
  }
  if (!first) co_yield me.send(before, me.whole_chunk());
}

/// All-reduce along a chain, piece by piece: 2(n−1) + P − 1 steps. Sums and results move in opposite directions and
/// share the links of inner ranks.
Ops chain_pipelined_all_reduce(Local me, Bytes) {
  const int n = me.group_size(), last = n - 1;
  // The last rank is the root, as above.
  TreePlace place = chain_place(last - me.index(), n);
  for (int* peer : {&place.parent, &place.children[0]})
    if (*peer >= 0) *peer = last - *peer;
  co_yield tree_all_reduce(me, place);
}

TRAINYARD_COLLECTIVE("chain", Operation::broadcast, chain_peers, chain_broadcast);
TRAINYARD_COLLECTIVE("chain", Operation::reduce, chain_peers, chain_reduce);
TRAINYARD_COLLECTIVE("chain", Operation::all_reduce, chain_peers, chain_all_reduce);
TRAINYARD_COLLECTIVE("chain-pipelined", Operation::all_reduce, chain_peers, chain_pipelined_all_reduce,
                     .channels = up_and_down);

}  // namespace
}  // namespace trainyard
