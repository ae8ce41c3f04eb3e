// Along a chain. Where the data are cut into P pieces of time t each, of the settings' chunk size, a broadcast or reduce
// takes (n − 2 + P)·t: for many pieces hardly more than the data over one link, whatever n.
#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

std::vector<int> chain_peers(GroupPlace place) { return peers_in(chain_place(place.index, place.size)); }

/// n−1 messages of `size`, from rank 0 on.
Ops chain_broadcast(Local me, Bytes) { co_yield tree_broadcast(me, chain_place(me.index(), me.group_size())); }

/// n−1 messages of `size`; the sum grows towards rank 0.
Ops chain_reduce(Local me, Bytes) { co_yield tree_reduce(me, chain_place(me.index(), me.group_size())); }

/// Un-chunked: the sum grows from rank to rank, then the last one's goes back the same way. 2(n−1) messages of `size`,
/// one after the other.
Ops chain_all_reduce(Local me, Bytes) {
  const int before = me.index() - 1, after = me.index() + 1;
  const bool first = before < 0, last = after == me.group_size();
  if (!first) co_yield me.recv_reduce(before, me.whole());
  if (!last) {
    co_yield me.send(after, me.whole());
    co_yield me.recv_copy(after, me.whole());
  }
  if (!first) co_yield me.send(before, me.whole());
}

/// The same piece by piece: 2(n−1) + P − 1 steps; sums and results cross on the way, and share each inner rank's link.
Ops chain_pipelined_all_reduce(Local me, Bytes) {
  const int n = me.group_size(), last = n - 1;
  // The last rank is the root, as above.
  TreePlace at = chain_place(last - me.index(), n);
  for (int* peer : {&at.parent, &at.children[0]})
    if (*peer >= 0) *peer = last - *peer;
  co_yield tree_all_reduce(me, at);
}

TRAINYARD_COLLECTIVE("chain", Operation::broadcast, chain_peers, chain_broadcast);
TRAINYARD_COLLECTIVE("chain", Operation::reduce, chain_peers, chain_reduce);
TRAINYARD_COLLECTIVE("chain", Operation::all_reduce, chain_peers, chain_all_reduce);
TRAINYARD_COLLECTIVE("chain-pipelined", Operation::all_reduce, chain_peers, chain_pipelined_all_reduce,
                     .channels = up_and_down);

}  // namespace
}  // namespace trainyard
