#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

constexpr int kTrees = 2, kChannels = 2 * kTrees;

/// The binary tree on positions 1 … n whose levels are the lowest bits that are set: odd positions are leaves, and the
/// largest power of two is the root. A rank below a position that does not exist hangs one further up.
TreePlace place_by_bits(int position, int n) {
  TreePlace at;
  const int bit = position & -position;
  const int twin = (position ^ bit) | (2 * bit);
  if (const int parent = twin <= n ? twin : position ^ bit; parent > 0) at.parent = parent;
  if (bit == 1) return at;
  at.children[0] = position - bit / 2;
  int step = bit / 2;
  while (step > 0 && position + step > n) step /= 2;
  if (step > 0) at.children[1] = position + step;
  return at;
}

/// Tree 0 or 1. With an even n the second is the mirror image of the first, with an odd n it is moved on by one rank: no
/// rank is at an even position of both.
TreePlace double_tree_place(int tree, int rank, int n) {
  const bool mirrored = tree == 1 && n % 2 == 0, moved = tree == 1 && n % 2 == 1;
  TreePlace at = place_by_bits(mirrored ? n - rank : moved ? (rank + n - 1) % n + 1 : rank + 1, n);
  for (int* peer : {&at.parent, &at.children[0], &at.children[1]})
    if (*peer > 0) *peer = mirrored ? n - *peer : moved ? *peer % n : *peer - 1;
  return at;
}

std::vector<int> double_binary_tree_peers(GroupPlace place) {
  std::vector<int> peers;
  for (int tree = 0; tree < kTrees; ++tree)
    for (const int peer : peers_in(double_tree_place(tree, place.index, place.size)))
      if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  return peers;
}

int double_binary_tree_channels(GroupPlace) { return kChannels; }

/// Two binary trees at once, each with half of the data (Sanders, Speck & Träff 2009; NCCL's tree): a leaf of one is an
/// inner rank of the other, so that every rank sends 2 · `size` at most: its half up and its two halves down as an inner
/// rank, and a half up as a leaf. Piece by piece, each tree up on a channel and down on another. 2(n−1) messages of
/// `size`/2 a tree.
Ops double_binary_tree_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  for (int k = 1; k < kChannels; ++k) {
    Local channel = me.on_channel(k);
    co_yield channel.open_send();
    co_yield channel.open_recv();
  }
  const int pieces = me.pieces(me.part(0, kTrees));
  for (int i = 0; i < pieces; ++i)
    for (int tree = 0; tree < kTrees; ++tree) {
      const Local half = me.within(me.part(tree, kTrees));
      co_yield tree_all_reduce_piece(half.on_channel(2 * tree), half.on_channel(2 * tree + 1),
                                     double_tree_place(tree, me.index(), n), i, pieces);
    }
  for (int k = 1; k < kChannels; ++k) {
    Local channel = me.on_channel(k);
    co_yield channel.close();
  }
}

TRAINYARD_COLLECTIVE("double-binary-tree", Operation::all_reduce, double_binary_tree_peers,
                     double_binary_tree_all_reduce, .channels = double_binary_tree_channels);

}  // namespace
}  // namespace trainyard
