#include "strategies/collective.hpp"

namespace trainyard {
namespace {

std::vector<int> star_peers(GroupPlace place) {
  std::vector<int> peers;
  if (place.index > 0) return {0};
  for (int other = 1; other < place.size; ++other) peers.push_back(other);
  return peers;
}

/// Gather + broadcast all-reduce through rank 0 (the master): it adds up what all others send, then sends the sum back.
/// 2(n−1) messages of `size`, all of them over the master's link.
Ops gather_broadcast_all_reduce(Local me, Bytes) {
  if (me.index() > 0) {
    co_yield me.send(0, me.whole());
    co_yield me.recv_copy(0, me.whole());
    co_return;
  }
  for (int other = 1; other < me.group_size(); ++other) co_yield me.recv_reduce(other, me.whole());
  for (int other = 1; other < me.group_size(); ++other) co_yield me.send(other, me.whole());
}

TRAINYARD_COLLECTIVE("gather-broadcast", Operation::all_reduce, star_peers, gather_broadcast_all_reduce);

}  // namespace
}  // namespace trainyard
