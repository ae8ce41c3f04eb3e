#include "strategies/collective.hpp"

namespace trainyard {
namespace {

int tree_parent(int index) { return (index - 1) / 2; }

std::vector<int> tree_peers(GroupPlace place) {
  std::vector<int> peers;
  if (place.index > 0) peers.push_back(tree_parent(place.index));
  for (const int child : {2 * place.index + 1, 2 * place.index + 2})
    if (child < place.size) peers.push_back(child);
  return peers;
}

/// Binary tree all-reduce: reduce towards rank 0, then broadcast from it, whole messages along a complete binary tree
/// (children of i: 2i+1, 2i+2; Thakur, Rabenseifner & Gropp 2005 discuss trees against rings).
/// 2 ⌊log2 n⌋ levels; 2(n−1) messages of `size`; an inner rank sends 3 of them.
Ops binary_tree_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  const int left = 2 * me.index() + 1, right = left + 1;
  if (left < n) co_yield me.recv_reduce(left, me.whole());
  if (right < n) co_yield me.recv_reduce(right, me.whole());
  if (me.index() > 0) {
    co_yield me.send(tree_parent(me.index()), me.whole());
    co_yield me.recv_copy(tree_parent(me.index()), me.whole());
  }
  if (left < n) co_yield me.send(left, me.whole());
  if (right < n) co_yield me.send(right, me.whole());
}

TRAINYARD_COLLECTIVE("binary-tree", Operation::all_reduce, tree_peers, binary_tree_all_reduce);

}  // namespace
}  // namespace trainyard
