#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// Each rank sends all of its data to every other rank, and adds up what it receives: one step, n(n−1) messages of
/// `size`. It sends a copy, since the sum grows while sends are under way.
Ops parallel_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  co_yield me.copy(me.whole_chunk(), Local::scratch(me.whole_chunk()));
  for (int step = 1; step < n; ++step)
    co_yield me.send_at_once((me.index() + step) % n, Local::scratch(me.whole_chunk()));
  for (int step = 1; step < n; ++step) co_yield me.recv_reduce((me.index() + n - step) % n, me.whole_chunk());
}

TRAINYARD_COLLECTIVE("parallel", Operation::all_reduce, all_others, parallel_all_reduce);

}  // namespace
}  // namespace trainyard
