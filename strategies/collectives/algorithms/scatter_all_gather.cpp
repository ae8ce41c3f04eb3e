#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

std::vector<int> scatter_all_gather_peers(GroupPlace place) {
  std::vector<int> peers = binomial_peers(place);
  for (const int peer : ring_peers(place))
    if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  return peers;
}

/// Broadcast of long messages (van de Geijn; Barnett et al. 1994; Thakur, Rabenseifner & Gropp 2005): chunk i of n
/// goes to rank i down a binomial tree, then to all ranks round the ring. ⌈log2 n⌉ + n−1 steps; the root sends
/// 2(n−1)/n of `size`.
Ops scatter_all_gather_broadcast(Local me, Bytes) {
  const BinomialPlace at(me);
  const int n = me.group_size();
  if (!at.root()) co_yield me.recv_copy(at.parent(), me.whole_chunk().parts(at.index, at.all_blocks(), n));
  for (int distance = at.width / 2; distance >= 1; distance /= 2)
    if (at.child(distance))
      co_yield me.send(at.index + distance, me.whole_chunk().parts(at.index + distance, at.blocks_below(distance), n));
  co_yield me.phase();
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.chunk(at.index - step));
    co_yield me.recv_copy(me.previous(), me.chunk(at.index - step - 1));
  }
}

TRAINYARD_COLLECTIVE("scatter-all-gather", Operation::broadcast, scatter_all_gather_peers,
                     scatter_all_gather_broadcast);

}  // namespace
}  // namespace trainyard
