// The rings of a mesh of point-to-point links, all at the same time, each with a share of the data in proportion to
// its width: NCCL's rings of a DGX-1. The settings list the rings of the machine.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

using Rings = std::vector<WeightedRing>;

std::vector<int> ring_neighbours(GroupPlace place) {
  std::vector<int> peers;
  for (const WeightedRing& ring : place.settings->rings) {
    const Numbering order = Numbering::from_ring(ring.order);
    const int n = order.size(), position = order.number(place.index);
    for (const int peer : {order.member((position + 1) % n), order.member((position + n - 1) % n)})
      if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  }
  return peers;
}

template <int ways>
int ring_channels(GroupPlace place) {
  return std::max(1, ways * static_cast<int>(place.settings->rings.size()));
}

template <int ways>
std::string no_rings(GroupPlace place) {
  const Rings& rings = place.settings->rings;
  if (place.size == 1) return "";
  if (rings.empty()) return "there are no rings to run on: the settings name none";
  for (const WeightedRing& ring : rings) {
    if (static_cast<int>(ring.order.member.size()) != place.size)
      return fmt::format("a ring of {} ranks, in a group of {}", ring.order.member.size(), place.size);
    if (ring.weight < 1) return fmt::format("a ring of weight {}; at least 1", ring.weight);
  }
  constexpr int most = kMaxStreams / 2 - 2;
  const int channels = ring_channels<ways>(place);
  return channels <= most ? "" : fmt::format("{} rings at once; at most {}", channels, most);
}

/// Ring k / ways (in the opposite direction if there are two directions and k is odd), and its part of the data.
struct RingShare {
  int first, count, parts;
};
template <int ways>
RingShare share_of(const Rings& rings, int k) {
  const auto weights = [&rings](std::size_t end) {
    return std::accumulate(rings.begin(), rings.begin() + static_cast<std::ptrdiff_t>(end), 0,
                           [](int sum, const WeightedRing& ring) { return sum + ring.weight; });
  };
  const auto ring = static_cast<std::size_t>(k / ways);
  const int weight = rings[ring].weight;
  return {weights(ring) * ways + k % ways * weight, weight, weights(rings.size()) * ways};
}
template <int ways>
Local on_weighted_ring(const Local& me, int k) {
  const Numbering ring = Numbering::from_ring(me.settings().rings[k / ways].order);
  return me.renumber(k % ways == 0 ? ring : ring.reverse()).on_channel(k);
}
template <int ways>
int rings_of(const Local& me) {
  return ways * static_cast<int>(me.settings().rings.size());
}

/// 2(n−1) steps of every ring; a rank sends 2(n−1)/n of the ring's share of the size on it.
template <int ways>
Ops multi_ring_all_reduce(Local me, Bytes) {
  return side_by_side(me, rings_of<ways>(me), [&](int k) {
    const RingShare share = share_of<ways>(me.settings().rings, k);
    return one_ring_all_reduce(
        on_weighted_ring<ways>(me, k).restrict_to(me.whole_chunk().parts(share.first, share.count, share.parts)));
  });
}
/// n−1 steps; each ring has its share of every block.
template <int ways, Ops (*one_ring)(Local)>
Ops multi_ring_of_blocks(Local me, Bytes) {
  return side_by_side(me, rings_of<ways>(me), [&](int k) {
    const RingShare share = share_of<ways>(me.settings().rings, k);
    return one_ring(on_weighted_ring<ways>(me, k).on_slice(share.first, share.parts, share.count));
  });
}

template <int ways>
Collective multi_ring(Ops (*run)(Local, Bytes)) {
  return {.name = ways == 2 ? "bidirectional-multi-ring" : "multi-ring",
          .peers = ring_neighbours,
          .run = run,
          .channels = ring_channels<ways>,
          .refuses = no_rings<ways>,
          .steady = true};
}
const RegisterCollective register_multi_ring[] = {
    {Operation::all_reduce, multi_ring<1>(multi_ring_all_reduce<1>)},
    {Operation::reduce_scatter, multi_ring<1>(multi_ring_of_blocks<1, one_ring_reduce_scatter>)},
    {Operation::all_gather, multi_ring<1>(multi_ring_of_blocks<1, one_ring_all_gather>)},
    {Operation::all_reduce, multi_ring<2>(multi_ring_all_reduce<2>)},
    {Operation::reduce_scatter, multi_ring<2>(multi_ring_of_blocks<2, one_ring_reduce_scatter>)},
    {Operation::all_gather, multi_ring<2>(multi_ring_of_blocks<2, one_ring_all_gather>)}};

}  // namespace
}  // namespace trainyard
