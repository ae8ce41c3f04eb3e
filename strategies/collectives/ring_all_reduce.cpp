#include "strategies/collective.hpp"

namespace trainyard {
namespace {

/// Ring all-reduce: reduce-scatter, then all-gather, round one ring (Patarasu & Yuan 2009).
/// 2(n−1) steps; each rank sends 2(n−1)/n of `size`. After the reduce-scatter, rank i owns chunk i+1.
Ops ring_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.chunk(me.index() - step));
    co_yield me.recv_reduce(me.previous(), me.chunk(me.index() - step - 1));
  }
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.chunk(me.index() + 1 - step));
    co_yield me.recv_copy(me.previous(), me.chunk(me.index() - step));
  }
}

TRAINYARD_COLLECTIVE("ring", Operation::all_reduce, ring_peers, ring_all_reduce);

}  // namespace
}  // namespace trainyard
