// A ring of sparse sums: each message contains the non-zero numbers and their places. Numbers of different ranks are
// at different places, so sums get denser with every hop, and are sent densely once that takes fewer bytes (Renggli et
// al. 2019, "SparCML", 5.1). With dense data it is an ordinary ring.
#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

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
