#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {

TreePlace heap_place(int index, int size) {
  TreePlace place;
  if (index > 0) place.parent = (index - 1) / 2;
  for (int k = 0; k < 2; ++k)
    if (const int child = 2 * index + 1 + k; child < size) place.children[k] = child;
  return place;
}

TreePlace chain_place(int index, int size) {
  TreePlace place;
  place.parent = index - 1;
  if (index + 1 < size) place.children[0] = index + 1;
  return place;
}

std::vector<int> peers_in(const TreePlace& place) {
  std::vector<int> peers;
  for (const int peer : {place.parent, place.children[0], place.children[1]})
    if (peer >= 0) peers.push_back(peer);
  return peers;
}

Ops tree_broadcast(Local me, TreePlace place) {
  const int pieces = me.pieces();
  for (int i = 0; i < pieces; ++i) {
    if (!place.root()) co_yield me.recv_copy(place.parent, me.part(i, pieces));
    for (const int child : place.children)
      if (child >= 0) co_yield me.send(child, me.part(i, pieces));
  }
}

Ops tree_reduce(Local me, TreePlace place) {
  const int pieces = me.pieces();
  for (int i = 0; i < pieces; ++i) {
    for (const int child : place.children)
      if (child >= 0) co_yield me.recv_reduce(child, me.part(i, pieces));
    if (!place.root()) co_yield me.send(place.parent, me.part(i, pieces));
  }
}

Ops tree_all_reduce_piece(Local up, Local down, TreePlace place, int i, int pieces) {
  const Chunk piece = up.part(i, pieces);
  for (const int child : place.children)
    if (child >= 0) co_yield up.recv_reduce(child, piece);
  if (!place.root()) {
    co_yield up.send(place.parent, piece);
    co_yield down.recv_copy(place.parent, piece);
  }
  // The root turns pieces round: it sends down what has come up on the other channel.
  const Dep summed = place.root() ? up.last_receive() : Dep{};
  for (const int child : place.children)
    if (child >= 0) co_yield down.send(child, piece, summed);
}

Ops tree_all_reduce(Local me, TreePlace place) {
  Local down = me.on_channel(1);
  const int pieces = me.pieces();
  co_yield open_channels(me, 2);
  for (int i = 0; i < pieces; ++i) co_yield tree_all_reduce_piece(me, down, place, i, pieces);
  co_yield close_channels(me, 2);
}

int up_and_down(GroupPlace) { return 2; }

std::vector<int> binomial_peers(GroupPlace place) {
  const BinomialPlace tree_place(place.index, place.size);
  std::vector<int> peers;
  if (!tree_place.root()) peers.push_back(tree_place.parent());
  for (int distance = tree_place.width / 2; distance >= 1; distance /= 2)
    if (tree_place.child(distance)) peers.push_back(tree_place.index + distance);
  return peers;
}

Ops binomial_broadcast(Local me) {
  const BinomialPlace tree_place(me);
  if (!tree_place.root()) co_yield me.recv_copy(tree_place.parent(), me.whole_chunk());
  for (int distance = tree_place.width / 2; distance >= 1; distance /= 2)
    if (tree_place.child(distance)) co_yield me.send(tree_place.index + distance, me.whole_chunk());
}

Ops binomial_reduce(Local me) {
  const BinomialPlace tree_place(me);
  for (int distance = 1; distance < tree_place.width; distance *= 2)
    if (tree_place.child(distance)) co_yield me.recv_reduce(tree_place.index + distance, me.whole_chunk());
  if (!tree_place.root()) co_yield me.send(tree_place.parent(), me.whole_chunk());
}

}  // namespace trainyard
