// A ring of sparse sums: each message has what is not zero, with its places. Numbers of different ranks are at different
// places, so that sums get denser hop by hop, and are sent whole where that is less (Renggli et al. 2019, "SparCML", 5.1).
// With data that are not sparse it is a ring.
#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

Ops sparse_ring_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.summed(me.chunk(me.index() - step), step + 1));
    co_yield me.recv_reduce(me.previous(), me.summed(me.chunk(me.index() - step - 1), step + 1));
  }
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.summed(me.chunk(me.index() + 1 - step), n));
    co_yield me.recv_copy(me.previous(), me.summed(me.chunk(me.index() - step), n));
  }
}

TRAINYARD_COLLECTIVE("sparse-ring", Operation::all_reduce, ring_peers, sparse_ring_all_reduce, .steady = true,
                     .for_teaching = true, .role = all_alike);

}  // namespace
}  // namespace trainyard
