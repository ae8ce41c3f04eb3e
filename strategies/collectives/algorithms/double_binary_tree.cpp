#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

constexpr int kTrees = 2, kChannels = 2 * kTrees;

/// The binary tree on positions 1 … n in which the level of a position is its lowest set bit: odd positions are
/// leaves, and the largest power of two is the root. If a parent position does not exist, the rank hangs one level
/// higher.
TreePlace place_by_bits(int position, int n) {
  TreePlace place;
  const int bit = position & -position;
  const int twin = (position ^ bit) | (2 * bit);
  if (const int parent = twin <= n ? twin : position ^ bit; parent > 0) place.parent = parent;
  if (bit == 1) return place;
  place.children[0] = position - bit / 2;
  int step = bit / 2;
  while (step > 0 && position + step > n) step /= 2;
  if (step > 0) place.children[1] = position + step;
  return place;
}

/// Returns tree 0 or 1. For even n the second tree is the mirror image of the first, for odd n it is shifted by one
/// rank, so that no rank is at an even position in both.
TreePlace double_tree_place(int tree, int rank, int n) {
  const bool mirrored = tree == 1 && n % 2 == 0, moved = tree == 1 && n % 2 == 1;
  TreePlace place = place_by_bits(mirrored ? n - rank : moved ? (rank + n - 1) % n + 1 : rank + 1, n);
  for (int* peer : {&place.parent, &place.children[0], &place.children[1]})
    if (*peer > 0) *peer = mirrored ? n - *peer : moved ? *peer % n : *peer - 1;
  return place;
}

std::vector<int> double_binary_tree_peers(GroupPlace place) {
  std::vector<int> peers;
  for (int tree = 0; tree < kTrees; ++tree)
    add_peers(peers, peers_in(double_tree_place(tree, place.index, place.size)));
  return peers;
}

int double_binary_tree_channels(GroupPlace) { return kChannels; }

/// Two binary trees at once, each with half of the data (Sanders, Speck & Träff 2009; NCCL's tree). A leaf of one is
/// an inner rank of the other, so that every rank sends at most 2 · `size`: as an inner rank its half up and two
/// halves down, and as a leaf a half up. Works piece by piece; each tree goes up on one channel and down on another.
/// 2(n−1) messages of `size`/2 for each tree.
Ops double_binary_tree_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  co_yield open_channels(me, kChannels);
  const int pieces = me.pieces(me.part(0, kTrees));
  for (int i = 0; i < pieces; ++i)
    for (int tree = 0; tree < kTrees; ++tree) {
      const Local half = me.restrict_to(me.part(tree, kTrees));
      co_yield tree_all_reduce_piece(half.on_channel(2 * tree), half.on_channel(2 * tree + 1),
                                     double_tree_place(tree, me.index(), n), i, pieces);
    }
  co_yield close_channels(me, kChannels);
}

TRAINYARD_COLLECTIVE("double-binary-tree", Operation::all_reduce, double_binary_tree_peers,
                     double_binary_tree_all_reduce, .channels = double_binary_tree_channels);

// Along a complete binary tree (children of i: 2i+1, 2i+2; Thakur, Rabenseifner & Gropp 2005 compare trees with
// rings), in pieces of the settings' chunk size. An inner rank serves its two children one after the other. With P
// pieces of time t each, a broadcast or reduce takes 2(P−1)·t plus the time of one piece, which is at most 2 ⌊log2 n⌋
// · t.

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
