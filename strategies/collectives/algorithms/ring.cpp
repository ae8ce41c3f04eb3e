// Rings (Patarasu & Yuan 2009): everybody sends to the next and receives from the previous member in every step.
// With several channels each runs a ring of its own on its share of the data, rotated within nodes.
#include <algorithm>

#include "sim/hashing.hpp"
#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

/// Steps that differ by one number of the chunk alone, but for one jump of it: where numbers begin again from the last.
struct StepsAlike {
  int steps = 0;
  int jump = 0;  ///< the step of them whose chunk is sent after the jump; `steps` + 1: none
};

/// From `step` on, at most so many. In each the chunk of its number is sent and the next step's received.
template <class Sent>
StepsAlike steps_alike(const Sent& sent, int step, int most) {
  const Chunk first = sent(step);
  const auto each = static_cast<std::uint16_t>(sent(step + 1).ref.chunk - first.ref.chunk);
  BufferRef expected = first.ref;
  int jump = 0;
  for (int further = 1; further <= most; ++further) {
    const Chunk chunk = sent(step + further);
    expected.chunk = static_cast<std::uint16_t>(expected.chunk + each);
    if (chunk.bytes.value != first.bytes.value) return {further - 1, jump > 0 ? jump : further};
    if (chunk.ref == expected) continue;
    if (jump > 0) return {further - 1, jump};
    jump = further;
    expected = chunk.ref;
  }
  return {most, jump > 0 ? jump : most + 1};
}

}  // namespace

/// Steps differ by the numbers of chunks alone, each one less than the one before, until they begin again from the last
/// chunk: as many come at once.
Ops ring_steps(Local me, int number, bool adds, Chunk (Local::*of)(int) const) {
  constexpr int fewest = 8, by_itself = 2;  // rounds that tell how they differ
  const int n = me.group_size();
  const auto sent = [&me, number, of](int step) { return (me.*of)(number - step); };
  const auto send = [&sent](Local& by, int step) -> const Op& { return by.send(by.next(), sent(step)); };
  const auto receive = [&sent, adds](Local& by, int step) -> const Op& {
    const Chunk chunk = sent(step + 1);
    return adds ? by.recv_reduce(by.previous(), chunk) : by.recv_copy(by.previous(), chunk);
  };
  for (int step = 0; step < n - 1; ++step) {
    const StepsAlike alike =
        step > 0 && me.two_streams() ? steps_alike(sent, step, n - 1 - step) : StepsAlike{1, by_itself};
    if (alike.steps < fewest || alike.jump <= by_itself) {
      co_yield send(me, step);
      co_yield receive(me, step);
      continue;
    }
    Repeat rounds;
    for (const int both : {0, 1}) {
      const Op& out = send(me, step + both);
      both == 0 ? rounds.add_first(out) : rounds.add_second(0, out);
      co_yield out;
      const Op& in = receive(me, step + both);
      both == 0 ? rounds.add_first(in) : rounds.add_second(1, in);
      co_yield in;
    }
    rounds.set_rounds(static_cast<std::uint32_t>(alike.steps - by_itself));
    if (alike.jump <= alike.steps) {  // received a step before it is sent
      Emitter unused;
      Local probe = me.emitting_to(unused);
      const auto round = static_cast<std::uint32_t>(alike.jump - by_itself);
      if (alike.jump < alike.steps) rounds.set_jump(0, round, send(probe, step + alike.jump).effect);
      rounds.set_jump(1, round - 1, receive(probe, step + alike.jump - 1).effect);
    }
    me.skip_rounds(rounds.rounds());
    co_yield rounds;
    step += alike.steps - 1;
  }
}

Ops one_ring_all_reduce(Local me) {
  co_yield ring_steps(me, me.index(), true);
  co_yield ring_steps(me, me.index() + 1, false);
}

Ops one_ring_reduce_scatter(Local me) { return ring_steps(me, me.index() - 1, true, &Local::block); }

Ops one_ring_all_gather(Local me) { return ring_steps(me, me.index(), false, &Local::block); }

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
