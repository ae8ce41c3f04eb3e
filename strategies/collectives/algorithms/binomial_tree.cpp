// Along a binomial tree: ⌈log2 n⌉ steps, each doubling the ranks that have the data (see BinomialPlace).
#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

/// n−1 messages of `size`; the root sends ⌈log2 n⌉ of them.
Ops binomial_tree_broadcast(Local me, Bytes) { co_yield binomial_broadcast(me); }

/// n−1 messages of `size`; the root receives ⌈log2 n⌉ of them.
Ops binomial_tree_reduce(Local me, Bytes) { co_yield binomial_reduce(me); }

/// Every message carries the blocks of a whole subtree: the root sends (n−1)/n of `size`, in ⌈log2 n⌉ messages. What
/// passes through a rank lies in a copy beside its data.
Ops binomial_tree_scatter(Local me, Bytes) {
  const BinomialPlace at(me);
  const Chunk own = me.block(at.index);
  if (at.all() == 1) {
    co_yield me.recv_copy(at.parent(), own);
    co_return;
  }
  if (!at.root()) {
    const Chunk passing = Local::scratch(me.blocks(at.index, at.all()));
    co_yield me.recv_copy(at.parent(), passing);
    co_yield me.copy(Local::scratch(own), own);
  }
  for (int distance = at.width / 2; distance >= 1; distance /= 2) {
    if (!at.child(distance)) continue;
    const Chunk blocks = me.blocks(at.index + distance, at.below(distance));
    co_yield me.send(at.index + distance, at.root() ? blocks : Local::scratch(blocks));
  }
}

/// The same the other way round: the root receives (n−1)/n of `size`, in ⌈log2 n⌉ messages.
Ops binomial_tree_gather(Local me, Bytes) {
  const BinomialPlace at(me);
  const Chunk own = me.block(at.index);
  if (at.all() == 1) {
    co_yield me.send(at.parent(), own);
    co_return;
  }
  if (!at.root()) co_yield me.copy(own, Local::scratch(own));
  for (int distance = 1; distance < at.width; distance *= 2) {
    if (!at.child(distance)) continue;
    const Chunk blocks = me.blocks(at.index + distance, at.below(distance));
    co_yield me.recv_copy(at.index + distance, at.root() ? blocks : Local::scratch(blocks));
  }
  if (!at.root()) co_yield me.send(at.parent(), Local::scratch(me.blocks(at.index, at.all())));
}

/// Reduce to rank 0, then broadcast from it: 2 ⌈log2 n⌉ steps, 2(n−1) messages of `size`.
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
