// Along a binomial tree: ⌈log2 n⌉ steps, each of which doubles the number of ranks that have the data (see
// BinomialPlace).
#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

/// n−1 messages of `size`; the root sends ⌈log2 n⌉ of them.
Ops binomial_tree_broadcast(Local me, Bytes) { co_yield binomial_broadcast(me); }

/// n−1 messages of `size`; the root receives ⌈log2 n⌉ of them.
Ops binomial_tree_reduce(Local me, Bytes) { co_yield binomial_reduce(me); }

/// Every message carries the blocks of a whole subtree: the root sends (n−1)/n of `size`, in ⌈log2 n⌉ messages. Blocks
/// that pass through a rank lie in a scratch copy of its data.
Ops binomial_tree_scatter(Local me, Bytes) {
  const BinomialPlace place(me);
  const Chunk own_block = me.block(place.index);
  if (place.all_blocks() == 1) {
    co_yield me.recv_copy(place.parent(), own_block);
    co_return;
  }
  if (!place.root()) {
    const Chunk passing = Local::scratch(me.blocks(place.index, place.all_blocks()));
    co_yield me.recv_copy(place.parent(), passing);
    co_yield me.copy(Local::scratch(own_block), own_block);
  }
  for (int distance = place.width / 2; distance >= 1; distance /= 2) {
    if (!place.child(distance)) continue;
    const Chunk blocks = me.blocks(place.index + distance, place.blocks_below(distance));
    co_yield me.send(place.index + distance, place.root() ? blocks : Local::scratch(blocks));
  }
}

/// The reverse of scatter: the root receives (n−1)/n of `size`, in ⌈log2 n⌉ messages.
Ops binomial_tree_gather(Local me, Bytes) {
  const BinomialPlace place(me);
  const Chunk own_block = me.block(place.index);
  if (place.all_blocks() == 1) {
    co_yield me.send(place.parent(), own_block);
    co_return;
  }
  if (!place.root()) co_yield me.copy(own_block, Local::scratch(own_block));
  for (int distance = 1; distance < place.width; distance *= 2) {
    if (!place.child(distance)) continue;
    const Chunk blocks = me.blocks(place.index + distance, place.blocks_below(distance));
    co_yield me.recv_copy(place.index + distance, place.root() ? blocks : Local::scratch(blocks));
  }
  if (!place.root()) co_yield me.send(place.parent(), Local::scratch(me.blocks(place.index, place.all_blocks())));
}

/// Reduces to rank 0, then broadcasts from it: 2 ⌈log2 n⌉ steps, 2(n−1) messages of `size`.
Ops reduce_broadcast_all_reduce(Local me, Bytes) {
  co_yield binomial_reduce(me);
  co_yield me.phase();
  co_yield binomial_broadcast(me);
}

TRAINYARD_COLLECTIVE("binomial-tree", Operation::broadcast, binomial_peers, binomial_tree_broadcast);
TRAINYARD_COLLECTIVE("binomial-tree", Operation::reduce, binomial_peers, binomial_tree_reduce);
TRAINYARD_COLLECTIVE("binomial-tree", Operation::scatter, binomial_peers, binomial_tree_scatter);
TRAINYARD_COLLECTIVE("binomial-tree", Operation::gather, binomial_peers, binomial_tree_gather);
TRAINYARD_COLLECTIVE("reduce-broadcast", Operation::all_reduce, binomial_peers, reduce_broadcast_all_reduce);

}  // namespace
}  // namespace trainyard
