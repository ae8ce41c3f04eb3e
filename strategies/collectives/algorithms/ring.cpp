// Rings (Patarasu & Yuan 2009): everybody sends to the next and receives from the previous member in every step.
// With several channels each runs a ring of its own on its share of the data, rotated within nodes.
#include <algorithm>
#include <optional>

#include "sim/hashing.hpp"
#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

Chunk shifted(Chunk chunk, std::uint16_t by) {
  chunk.ref.chunk = static_cast<std::uint16_t>(chunk.ref.chunk + by);
  return chunk;
}

/// By how much the number of the chunk grows from step to step, where it does so all the way round but for one place: where
/// numbers begin again. None where chunks are unlike otherwise. The same for all members.
template <class Sent>
std::optional<std::uint16_t> even_step(const Sent& sent, int n) {
  const auto grown = [](const Chunk& from, const Chunk& to) {
    return static_cast<std::uint16_t>(to.ref.chunk - from.ref.chunk);
  };
  const Chunk first = sent(0), second = sent(1), third = sent(2);
  const bool same = grown(first, second) == grown(second, third);  // or one of them is the jump
  const std::uint16_t usual = same ? grown(first, second) : grown(third, sent(3));
  int jumps = 0;
  Chunk chunk = first;
  for (int step = 0; step < n; ++step) {
    const Chunk next = sent(step + 1);
    if (!(next.ref == shifted(chunk, grown(chunk, next)).ref) || next.bytes.value != chunk.bytes.value)
      return std::nullopt;
    jumps += grown(chunk, next) == usual ? 0 : 1;
    chunk = next;
  }
  return jumps <= 1 ? std::optional(usual) : std::nullopt;
}

}  // namespace

/// Steps differ by the numbers of chunks alone: after those that tell how they differ all come at once.
Ops ring_steps(Local me, int number, bool adds, Chunk (Local::*of)(int) const) {
  constexpr int fewest = 12, told = 3;  // steps; the first of a collective is unlike the others
  const int n = me.group_size();
  const auto sent = [&me, number, of](int step) { return (me.*of)(number - step); };
  const auto send = [](Local& by, const Chunk& chunk) -> const Op& { return by.send(by.next(), chunk); };
  const auto receive = [adds](Local& by, const Chunk& chunk) -> const Op& {
    return adds ? by.recv_reduce(by.previous(), chunk) : by.recv_copy(by.previous(), chunk);
  };
  const std::optional<std::uint16_t> each = n > fewest && me.two_streams() ? even_step(sent, n) : std::nullopt;
  Repeat rounds;
  for (int step = 0; step < (each ? told : n - 1); ++step) {
    const Op& out = send(me, sent(step));
    if (step == 1) rounds.add_first(out);
    if (step == 2) rounds.add_second(0, out);
    co_yield out;
    const Op& in = receive(me, sent(step + 1));
    if (step == 1) rounds.add_first(in);
    if (step == 2) rounds.add_second(1, in);
    co_yield in;
  }
  if (!each) co_return;
  const int left = n - 1 - told;
  rounds.set_rounds(static_cast<std::uint32_t>(left));
  Emitter unused;
  Local probe = me.emitting_to(unused);
  for (const int received : {0, 1}) {  // a step before it is sent
    const auto effect = [&](const Chunk& chunk) {
      return received == 0 ? send(probe, chunk).effect : receive(probe, chunk).effect;
    };
    const int from = told + received;
    rounds.set_effects(received, effect(sent(from)), effect(shifted(sent(from), *each)));
    Chunk expected = sent(from);
    for (int round = 1; round < left; ++round) {
      expected = shifted(expected, *each);
      const Chunk chunk = sent(from + round);
      if (chunk.ref == expected.ref) continue;
      rounds.set_jump(received, static_cast<std::uint32_t>(round), effect(chunk));
      break;
    }
  }
  me.skip_rounds(rounds.rounds());
  co_yield rounds;
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
