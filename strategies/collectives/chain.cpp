#include "strategies/collective.hpp"

namespace trainyard {
namespace {

std::vector<int> chain_peers(GroupPlace place) {
  std::vector<int> peers;
  if (place.index > 0) peers.push_back(place.index - 1);
  if (place.index + 1 < place.size) peers.push_back(place.index + 1);
  return peers;
}

/// Un-chunked chain: the sum grows from rank to rank, then the last one's goes back the same way. 2(n−1) messages of
/// `size`, one after the other.
Ops chain_all_reduce(Local me, Bytes) {
  const int before = me.index() - 1, after = me.index() + 1;
  const bool first = before < 0, last = after == me.group_size();
  if (!first) co_yield me.recv_reduce(before, me.whole());
  if (!last) {
    co_yield me.send(after, me.whole());
    co_yield me.recv_copy(after, me.whole());
  }
  if (!first) co_yield me.send(before, me.whole());
}

TRAINYARD_COLLECTIVE("chain", Operation::all_reduce, chain_peers, chain_all_reduce);

}  // namespace
}  // namespace trainyard
