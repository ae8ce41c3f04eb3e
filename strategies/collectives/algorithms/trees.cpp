#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {

TreePlace heap_place(int index, int size) {
  TreePlace at;
  if (index > 0) at.parent = (index - 1) / 2;
  for (int k = 0; k < 2; ++k)
    if (const int child = 2 * index + 1 + k; child < size) at.children[k] = child;
  return at;
}

TreePlace chain_place(int index, int size) {
  TreePlace at;
  at.parent = index - 1;
  if (index + 1 < size) at.children[0] = index + 1;
  return at;
}

std::vector<int> peers_in(const TreePlace& at) {
  std::vector<int> peers;
  for (const int peer : {at.parent, at.children[0], at.children[1]})
    if (peer >= 0) peers.push_back(peer);
  return peers;
}

Ops tree_broadcast(Local me, TreePlace at) {
  const int pieces = me.pieces();
  for (int i = 0; i < pieces; ++i) {
    if (!at.root()) co_yield me.recv_copy(at.parent, me.part(i, pieces));
    for (const int child : at.children)
      if (child >= 0) co_yield me.send(child, me.part(i, pieces));
  }
}

Ops tree_reduce(Local me, TreePlace at) {
  const int pieces = me.pieces();
  for (int i = 0; i < pieces; ++i) {
    for (const int child : at.children)
      if (child >= 0) co_yield me.recv_reduce(child, me.part(i, pieces));
    if (!at.root()) co_yield me.send(at.parent, me.part(i, pieces));
  }
}

Ops tree_all_reduce_piece(Local up, Local down, TreePlace at, int i, int of) {
  const Chunk piece = up.part(i, of);
  for (const int child : at.children)
    if (child >= 0) co_yield up.recv_reduce(child, piece);
  if (!at.root()) {
    co_yield up.send(at.parent, piece);
    co_yield down.recv_copy(at.parent, piece);
  }
  // The root turns round: what goes down is what has come up, on the other channel.
  const Dep summed = at.root() ? up.received() : Dep{};
  for (const int child : at.children)
    if (child >= 0) co_yield down.send(child, piece, summed);
}

Ops tree_all_reduce(Local me, TreePlace at) {
  Local down = me.on_channel(1);
  const int pieces = me.pieces();
  co_yield down.open_send();
  co_yield down.open_recv();
  for (int i = 0; i < pieces; ++i) co_yield tree_all_reduce_piece(me, down, at, i, pieces);
  co_yield down.close();
}

int up_and_down(GroupPlace) { return 2; }

std::vector<int> binomial_peers(GroupPlace place) {
  const BinomialPlace at(place.index, place.size);
  std::vector<int> peers;
  if (!at.root()) peers.push_back(at.parent());
  for (int distance = at.width / 2; distance >= 1; distance /= 2)
    if (at.child(distance)) peers.push_back(at.index + distance);
  return peers;
}

Ops binomial_broadcast(Local me) {
  const BinomialPlace at(me);
  if (!at.root()) co_yield me.recv_copy(at.parent(), me.whole());
  for (int distance = at.width / 2; distance >= 1; distance /= 2)
    if (at.child(distance)) co_yield me.send(at.index + distance, me.whole());
}

Ops binomial_reduce(Local me) {
  const BinomialPlace at(me);
  for (int distance = 1; distance < at.width; distance *= 2)
    if (at.child(distance)) co_yield me.recv_reduce(at.index + distance, me.whole());
  if (!at.root()) co_yield me.send(at.parent(), me.whole());
}

}  // namespace trainyard
