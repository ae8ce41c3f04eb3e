#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

std::vector<int> scatter_all_gather_peers(GroupPlace place) {
  std::vector<int> peers = binomial_peers(place);
  add_peers(peers, ring_peers(place));
  return peers;
}

/// Broadcast of long messages (van de Geijn; Barnett et al. 1994; Thakur, Rabenseifner & Gropp 2005): chunk i of n
/// goes to rank i down a binomial tree, then to all ranks round the ring. ⌈log2 n⌉ + n−1 steps; the root sends
/// 2(n−1)/n of `size`.
Ops scatter_all_gather_broadcast(Local me, Bytes) {
  const BinomialPlace place(me);
  const int n = me.group_size();
  if (!place.root()) co_yield me.recv_copy(place.parent(), me.whole_chunk().parts(place.index, place.all_blocks(), n));
  for (int distance = place.width / 2; distance >= 1; distance /= 2)
    if (place.child(distance))
      co_yield me.send(place.index + distance,
                       me.whole_chunk().parts(place.index + distance, place.blocks_below(distance), n));
  co_yield me.phase();
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.chunk(place.index - step));
    co_yield me.recv_copy(me.previous(), me.chunk(place.index - step - 1));
  }
}

TRAINYARD_COLLECTIVE("scatter-all-gather", Operation::broadcast, scatter_all_gather_peers,
                     scatter_all_gather_broadcast);

}  // namespace
}  // namespace trainyard
