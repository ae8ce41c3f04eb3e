// Direct between a root and all others at once: one latency is paid, and the root's link is shared.
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// n−1 messages of `size`/n at the same time.
Ops direct_scatter(Local me, Bytes) {
  if (me.index() > 0) co_yield me.recv_copy(0, me.block(me.index()));
  for (int other = 1; me.index() == 0 && other < me.group_size(); ++other)
    co_yield me.send_at_once(other, me.block(other));
}

/// n−1 messages of `size`/n at the same time.
Ops direct_gather(Local me, Bytes) {
  if (me.index() > 0) co_yield me.send_at_once(0, me.block(me.index()));
  for (int other = 1; me.index() == 0 && other < me.group_size(); ++other)
    co_yield me.recv_copy(other, me.block(other));
}

TRAINYARD_COLLECTIVE("direct", Operation::scatter, star_peers, direct_scatter);
TRAINYARD_COLLECTIVE("direct", Operation::gather, star_peers, direct_gather);

}  // namespace
}  // namespace trainyard
