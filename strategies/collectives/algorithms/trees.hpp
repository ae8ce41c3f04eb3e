#pragma once
#include <algorithm>
#include <array>

#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// A rank's parent and children in a tree with at most two children per rank. −1: there is none.
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

// The operations below run along any tree of TreePlaces, in pieces of the settings' chunk size: a piece moves on while
// the next one arrives. If there is one piece, whole messages go from level to level.

/// Sends from the root to the leaves: n−1 messages for each piece.
Ops tree_broadcast(Local, TreePlace);
/// Sends from the leaves to the root, with sums at each rank: n−1 messages for each piece.
Ops tree_reduce(Local, TreePlace);
/// Piece `i` of `pieces` of an all-reduce: up the tree on one channel and down on another, so that some pieces go up
/// while others come down. 2(n−1) messages.
Ops tree_all_reduce_piece(Local up, Local down, TreePlace, int i, int pieces);
/// The whole all-reduce, on channels 0 and 1.
Ops tree_all_reduce(Local, TreePlace);
/// Number of stream pairs that an all-reduce along one tree uses.
int up_and_down(GroupPlace);

/// A rank's place in the binomial tree. The parent of a rank is its number without the lowest set bit, so that a rank
/// and all ranks below it are consecutive (MPICH; Thakur, Rabenseifner & Gropp 2005).
struct BinomialPlace {
  int index, size;
  int width = 1;  ///< number of ranks in a complete subtree of this height
  BinomialPlace(int rank, int ranks) : index(rank), size(ranks) {
    while (width < size && (index & width) == 0) width *= 2;
  }
  explicit BinomialPlace(const Local& me) : BinomialPlace(me.index(), me.group_size()) {}
  bool root() const { return index == 0; }
  int parent() const { return index - width; }
  /// True if the rank has a child `distance` places ahead.
  bool child(int distance) const { return index + distance < size; }
  /// Number of ranks in the subtree of that child, and in this rank's own subtree.
  int blocks_below(int distance) const { return std::min(distance, size - index - distance); }
  int all_blocks() const { return std::min(width, size - index); }
};
std::vector<int> binomial_peers(GroupPlace);
/// Sends whole messages in ⌈log2 n⌉ steps; n−1 messages. The child with the largest subtree receives first (broadcast)
/// and gives last (reduce).
Ops binomial_broadcast(Local);
Ops binomial_reduce(Local);

}  // namespace trainyard
