// Along a complete binary tree (children of i: 2i+1, 2i+2; Thakur, Rabenseifner & Gropp 2005 compare trees with
// rings), in pieces of the settings' chunk size. An inner rank serves its two children one after the other. With P
// pieces of time t each, a broadcast or reduce takes 2(P−1)·t plus the time of one piece, which is at most 2 ⌊log2 n⌋
// · t.
#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

TreePlace heap_place_of(const Local& me) { return heap_place(me.index(), me.group_size()); }

std::vector<int> binary_tree_peers(GroupPlace place) { return peers_in(heap_place(place.index, place.size)); }

/// n−1 messages of `size`; an inner rank sends 2 of them.
Ops binary_tree_broadcast(Local me, Bytes) { co_yield tree_broadcast(me, heap_place_of(me)); }

/// n−1 messages of `size`; an inner rank receives 2 of them.
Ops binary_tree_reduce(Local me, Bytes) { co_yield tree_reduce(me, heap_place_of(me)); }

/// Reduces to rank 0, then broadcasts from it: 2(n−1) messages of `size`; an inner rank sends 3 of them. Pieces come
/// down while others still go up.
Ops binary_tree_all_reduce(Local me, Bytes) { co_yield tree_all_reduce(me, heap_place_of(me)); }

/// A rank sends up once all ranks below it have arrived; then messages go down: 2(n−1) messages without bytes.
Ops binary_tree_barrier(Local me, Bytes) {
  const TreePlace place = heap_place_of(me);
  const Local nothing = me.restrict_to({});
  co_yield tree_reduce(nothing, place);
  co_yield tree_broadcast(nothing, place);
}

TRAINYARD_COLLECTIVE("binary-tree", Operation::broadcast, binary_tree_peers, binary_tree_broadcast);
TRAINYARD_COLLECTIVE("binary-tree", Operation::reduce, binary_tree_peers, binary_tree_reduce);
TRAINYARD_COLLECTIVE("binary-tree", Operation::all_reduce, binary_tree_peers, binary_tree_all_reduce,
                     .channels = up_and_down);
TRAINYARD_COLLECTIVE("binary-tree", Operation::barrier, binary_tree_peers, binary_tree_barrier);

}  // namespace
}  // namespace trainyard
