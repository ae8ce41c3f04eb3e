// Rings (Patarasu & Yuan 2009): in every step each rank sends to the next member and receives from the previous one.
// With several channels, each channel runs its own ring on its share of the data, rotated within nodes.
#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {

Ops one_ring_all_reduce(Local me) {
  const int steps = me.group_size() - 1;
  co_yield ring_steps(me, steps, [](const Local& rank, int step) {
    return RingStep{
        .send = rank.chunk(rank.index() - step), .receive = rank.chunk(rank.index() - step - 1), .adds = true};
  });
  co_yield ring_steps(me, steps, [](const Local& rank, int step) {
    return RingStep{.send = rank.chunk(rank.index() + 1 - step), .receive = rank.chunk(rank.index() - step)};
  });
}

Ops one_ring_reduce_scatter(Local me) {
  return ring_steps(me, me.group_size() - 1, [](const Local& rank, int step) {
    return RingStep{
        .send = rank.block(rank.index() - step - 1), .receive = rank.block(rank.index() - step - 2), .adds = true};
  });
}

Ops one_ring_all_gather(Local me) {
  return ring_steps(me, me.group_size() - 1, [](const Local& rank, int step) {
    return RingStep{.send = rank.block(rank.index() - step), .receive = rank.block(rank.index() - step - 1)};
  });
}

namespace {

Local on_ring(const Local& me, int channel) {
  return me.renumber(channel_ring(me.group_size(), me.settings(), channel)).on_channel(channel);
}

Ops ring_all_reduce(Local me, Bytes) {
  const int channels = me.settings().channels;
  if (channels == 1) {
    co_yield one_ring_all_reduce(me);
    co_return;
  }
  Ops all = side_by_side(me, channels,
                         [&](int k) { return one_ring_all_reduce(on_ring(me, k).restrict_to(me.part(k, channels))); });
  co_yield all;
}

Ops ring_reduce_scatter(Local me, Bytes) {
  const int channels = me.settings().channels;
  return side_by_side(me, channels,
                      [&](int k) { return one_ring_reduce_scatter(on_ring(me, k).on_slice(k, channels)); });
}

Ops ring_all_gather(Local me, Bytes) {
  const int channels = me.settings().channels;
  return side_by_side(me, channels, [&](int k) { return one_ring_all_gather(on_ring(me, k).on_slice(k, channels)); });
}

TRAINYARD_COLLECTIVE("ring", Operation::all_reduce, rotated_ring_peers, ring_all_reduce, .channels = settings_channels,
                     .steady = true, .role = rotated_ring_role);
TRAINYARD_COLLECTIVE("ring", Operation::reduce_scatter, rotated_ring_peers, ring_reduce_scatter,
                     .channels = settings_channels, .steady = true, .role = rotated_ring_role);
TRAINYARD_COLLECTIVE("ring", Operation::all_gather, rotated_ring_peers, ring_all_gather, .channels = settings_channels,
                     .steady = true, .role = rotated_ring_role);

}  // namespace
}  // namespace trainyard
