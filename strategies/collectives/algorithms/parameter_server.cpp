#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// A parameter server on rank 0 (Li et al. 2014): all others push their data at the same time, then pull the sum at
/// the same time. Two rounds, but all data pass over the server's link: (n−1) · `size` in and out.
Ops parameter_server_all_reduce(Local me, Bytes) {
  if (me.index() > 0) {
    co_yield me.send_at_once(0, me.whole_chunk());
    co_yield me.recv_copy(0, me.whole_chunk());
    co_return;
  }
  for (int worker = 1; worker < me.group_size(); ++worker) co_yield me.recv_reduce(worker, me.whole_chunk());
  for (int worker = 1; worker < me.group_size(); ++worker) co_yield me.send_at_once(worker, me.whole_chunk());
}

TRAINYARD_COLLECTIVE("parameter-server", Operation::all_reduce, star_peers, parameter_server_all_reduce);

}  // namespace
}  // namespace trainyard
