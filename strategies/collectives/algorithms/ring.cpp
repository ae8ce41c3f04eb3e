// Rings (Patarasu & Yuan 2009): in every step each rank sends to the next member and receives from the previous one.
// With several channels, each channel runs its own ring on its share of the data, in an order of its own within nodes.
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

RegisterRings::RegisterRings(Shares shares, Collective algorithm) {
  algorithm.steady = true;
  algorithm.peers = [shares](GroupPlace place) {
    std::vector<int> peers;
    for (const RingShare& share : shares(place)) add_peers(peers, share.ring.neighbours(place.index));
    return peers;
  };
  const auto add = [&](Operation operation, Ops (*one_ring)(Local)) {
    algorithm.run = [=](Local me, Bytes) {
      const std::vector<RingShare> rings = shares(me.place());
      return side_by_side(me, static_cast<int>(rings.size()), [&](int k) {
        const auto& [ring, first, parts, count] = rings[static_cast<std::size_t>(k)];
        const Local view = me.renumber(ring).on_channel(k);
        return one_ring(operation == Operation::all_reduce
                            ? view.restrict_to(me.whole_chunk().parts(first, count, parts))
                            : view.on_slice(first, parts, count));  // a share of every block
      });
    };
    RegisterCollective{operation, algorithm};
  };
  add(Operation::all_reduce, one_ring_all_reduce);
  add(Operation::reduce_scatter, one_ring_reduce_scatter<>);
  add(Operation::all_gather, one_ring_all_gather<>);
}

std::vector<int> role_in_rings(const std::vector<RingShare>& rings, int index) {
  std::vector<int> peers, role;
  for (const RingShare& share : rings)
    for (const int neighbour : share.ring.neighbours(index)) {
      add_peers(peers, {neighbour});
      role.push_back(static_cast<int>(std::ranges::find(peers, neighbour) - peers.begin()));
    }
  return role;
}

namespace {

std::vector<RingShare> channel_rings(GroupPlace place) {
  const int channels = place.settings->channels;
  std::vector<RingShare> rings;
  for (int k = 0; k < channels; ++k) rings.push_back({channel_ring(place.size, *place.settings, k), k, channels});
  return rings;
}

std::vector<int> channel_rings_role(GroupPlace place) {
  if (place.settings->channels == 1) return {};
  return role_in_rings(channel_rings(place), place.index);
}

const RegisterRings register_ring{channel_rings,
                                  {.name = "ring", .channels = settings_channels, .role = channel_rings_role}};

}  // namespace
}  // namespace trainyard
