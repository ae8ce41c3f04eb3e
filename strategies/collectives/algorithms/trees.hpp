#pragma once
#include <algorithm>
#include <array>

#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Where a rank stands in a tree of at most two children each. −1: there is none.
struct TreePlace {
  int parent = -1;
  std::array<int, 2> children{-1, -1};
  bool root() const { return parent < 0; }
};
/// The complete binary tree: children of i are 2i+1 and 2i+2.
TreePlace heap_place(int index, int size);
/// A tree without branches, rank 0 at its root.
TreePlace chain_place(int index, int size);
std::vector<int> peers_in(const TreePlace&);

// Along any such tree, in pieces of the settings' chunk size: a piece goes on while the next one comes. With one piece
// whole messages go from level to level.

/// Root to leaves. n−1 messages a piece.
Ops tree_broadcast(Local, TreePlace);
/// Leaves to root, adding up. n−1 messages a piece.
Ops tree_reduce(Local, TreePlace);
/// Piece `i` of `of` of an all-reduce: up the tree on one channel, down on another, so that sums go up while others come
/// down. 2(n−1) messages.
Ops tree_all_reduce_piece(Local up, Local down, TreePlace, int i, int of);
/// All of it, on channels 0 and 1.
Ops tree_all_reduce(Local, TreePlace);
/// Pairs of streams of an all-reduce along one tree.
int up_and_down(GroupPlace);

/// The binomial tree: the parent of a rank is its number without the lowest bit that is set, so that a rank and all below
/// it are neighbours (MPICH; Thakur, Rabenseifner & Gropp 2005).
struct BinomialPlace {
  int index, size;
  int width = 1;  ///< ranks of the whole subtree, were there enough of them
  BinomialPlace(int rank, int ranks) : index(rank), size(ranks) {
    while (width < size && (index & width) == 0) width *= 2;
  }
  explicit BinomialPlace(const Local& me) : BinomialPlace(me.index(), me.group_size()) {}
  bool root() const { return index == 0; }
  int parent() const { return index - width; }
  /// Is there a child that many places ahead?
  bool child(int distance) const { return index + distance < size; }
  /// Ranks of the subtree of that child, and of this rank's own.
  int below(int distance) const { return std::min(distance, size - index - distance); }
  int all() const { return std::min(width, size - index); }
};
std::vector<int> binomial_peers(GroupPlace);
/// Whole messages, ⌈log2 n⌉ steps; n−1 messages. The child with the largest subtree is the first to get it, and the last
/// to give.
Ops binomial_broadcast(Local);
Ops binomial_reduce(Local);

}  // namespace trainyard
