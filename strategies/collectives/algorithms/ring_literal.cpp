#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// The ring as textbooks list it: post a non-blocking send of data[id−step], receive *into data[id−step]*, then add that
/// to data[id−1−step]. It is correct only if the send captures its data when it is posted: the receive overwrites data that
/// the send may still be reading (a write-after-read hazard, which the value executor reports). For teaching.
Ops ring_literal_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.chunk(me.index() - step));
    co_yield me.recv_copy(me.previous(), me.chunk(me.index() - step));
    co_yield me.reduce_at_once(me.chunk(me.index() - step), me.chunk(me.index() - 1 - step));
  }
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.chunk(me.index() + 1 - step));
    co_yield me.recv_copy(me.previous(), me.chunk(me.index() - step));
  }
}

TRAINYARD_COLLECTIVE("ring-literal", Operation::all_reduce, ring_peers, ring_literal_all_reduce, .for_teaching = true);

}  // namespace
}  // namespace trainyard
