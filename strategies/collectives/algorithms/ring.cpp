// Rings (Patarasu & Yuan 2009): everybody sends to the next and receives from the previous member in every step.
// With several channels each runs a ring of its own on its share of the data, rotated within nodes.
#include <algorithm>

#include "sim/hashing.hpp"
#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {

/// Steps differ by the numbers of chunks alone, each one less than the one before, until they begin again from the last
/// chunk: as many come at once.
Ops ring_steps(Local me, int number, bool adds) {
  constexpr int fewest = 8;
  const int n = me.group_size();
  const auto sent = [&me, number](int step) { return me.chunk(number - step); };
  const auto send = [&](int step) -> const Op& { return me.send(me.next(), sent(step)); };
  const auto receive = [&](int step) -> const Op& {
    const Chunk chunk = sent(step + 1);
    return adds ? me.recv_reduce(me.previous(), chunk) : me.recv_copy(me.previous(), chunk);
  };
  for (int step = 0; step < n - 1; ++step) {
    const int until_wrap = sent(step).ref.buffer == kUncounted ? n : ((number - step) % n + n) % n;
    const int alike = step > 0 && me.two_streams() ? std::min(n - 1 - step, until_wrap) : 1;
    if (alike < fewest) {
      co_yield send(step);
      co_yield receive(step);
      continue;
    }
    Repeat rounds;
    for (const int both : {0, 1}) {
      const Op& out = send(step + both);
      both == 0 ? rounds.add_first(out) : rounds.add_second(0, out);
      co_yield out;
      const Op& in = receive(step + both);
      both == 0 ? rounds.add_first(in) : rounds.add_second(1, in);
      co_yield in;
    }
    rounds.set_rounds(static_cast<std::uint32_t>(alike - 2));
    me.skip_rounds(rounds.rounds());
    co_yield rounds;
    step += alike - 1;
  }
}

Ops one_ring_all_reduce(Local me) {
  co_yield ring_steps(me, me.index(), true);
  co_yield ring_steps(me, me.index() + 1, false);
}

Ops one_ring_reduce_scatter(Local me) {
  const int n = me.group_size();
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.block(me.index() - step - 1));
    co_yield me.recv_reduce(me.previous(), me.block(me.index() - step - 2));
  }
}

Ops one_ring_all_gather(Local me) {
  const int n = me.group_size();
  for (int step = 0; step < n - 1; ++step) {
    co_yield me.send(me.next(), me.block(me.index() - step));
    co_yield me.recv_copy(me.previous(), me.block(me.index() - step - 1));
  }
}

namespace {

Local on_ring(const Local& me, int channel) {
  return me.numbered(channel_ring(me.group_size(), me.settings(), channel)).on_channel(channel);
}

Ops ring_all_reduce(Local me, Bytes) {
  const int channels = me.settings().channels;
  if (channels == 1) {
    co_yield one_ring_all_reduce(me);
    co_return;
  }
  Ops all = side_by_side(me, channels,
                         [&](int k) { return one_ring_all_reduce(on_ring(me, k).within(me.part(k, channels))); });
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

/// Of several channels, some of whose neighbours may be the same: where each channel's stand among the peers.
std::uint64_t ring_role(GroupPlace place) {
  const int channels = place.settings->channels;
  if (channels == 1) return 0;
  const std::vector<int> peers = rotated_ring_peers(place);
  const auto slot = [&peers](int member) {
    return static_cast<std::uint64_t>(std::find(peers.begin(), peers.end(), member) - peers.begin());
  };
  std::uint64_t role = peers.size();
  for (int channel = 0; channel < channels; ++channel) {
    const Numbering ring = channel_ring(place.size, *place.settings, channel);
    const int at = ring.number(place.index);
    role =
        hashed({role, slot(ring.member((at + 1) % place.size)), slot(ring.member((at + place.size - 1) % place.size))});
  }
  return role;
}

TRAINYARD_COLLECTIVE("ring", Operation::all_reduce, rotated_ring_peers, ring_all_reduce, .channels = settings_channels,
                     .steady = true, .role = ring_role);
TRAINYARD_COLLECTIVE("ring", Operation::reduce_scatter, rotated_ring_peers, ring_reduce_scatter,
                     .channels = settings_channels, .steady = true, .role = ring_role);
TRAINYARD_COLLECTIVE("ring", Operation::all_gather, rotated_ring_peers, ring_all_gather, .channels = settings_channels,
                     .steady = true, .role = ring_role);

}  // namespace
}  // namespace trainyard
