#include "strategies/collectives/algorithms/ring_steps.hpp"
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

TRAINYARD_COLLECTIVE("ring-literal", Operation::all_reduce, ring_peers, ring_literal_all_reduce, .for_teaching = true,
                     .equal_chunks = true);

// The ring in the opposite direction: each rank sends to the previous member and receives from the next. For teaching.

std::vector<RingShare> reversed_ring(GroupPlace place) { return {{Numbering(place.size).reverse(), 0, 1}}; }

const RegisterRings register_ring_reversed{reversed_ring,
                                           {.name = "ring-reversed", .for_teaching = true, .role = all_alike}};

// A ring of sparse sums: each message contains the non-zero numbers and their places. Numbers of different ranks are
// at different places, so sums get denser with every hop, and are sent densely once that takes fewer bytes (Renggli et
// al. 2019, "SparCML", 5.1). With dense data it is an ordinary ring.

Ops sparse_ring_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.sum_chunk(me.chunk(me.index() - step), step + 1));
    co_yield me.recv_reduce(me.previous(), me.sum_chunk(me.chunk(me.index() - step - 1), step + 1));
  }
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.sum_chunk(me.chunk(me.index() + 1 - step), n));
    co_yield me.recv_copy(me.previous(), me.sum_chunk(me.chunk(me.index() - step), n));
  }
}

TRAINYARD_COLLECTIVE("sparse-ring", Operation::all_reduce, ring_peers, sparse_ring_all_reduce, .steady = true,
                     .for_teaching = true, .role = all_alike);

}  // namespace

}  // namespace trainyard
