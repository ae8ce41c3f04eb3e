// The rings of a mesh of point-to-point links, all at the same time, each with a share of the data in proportion to
// its width: NCCL's rings of a DGX-1. The settings list the rings of the machine.
// Rings in both directions at the same time, each with half of the data. Full-duplex links between neighbours then
// carry twice what one ring uses (like the two-way rings of a torus: Sack & Gropp 2015). This needs a separate link to
// each neighbour: if a rank has one port, both halves share it and nothing is gained.
#include <fmt/format.h>
#include <algorithm>

#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

template <int directions>
int ring_channels(GroupPlace place) {
  return std::max(1, directions * static_cast<int>(place.settings->rings.size()));
}

template <int directions>
std::string no_rings(GroupPlace place) {
  const std::vector<WeightedRing>& rings = place.settings->rings;
  if (place.size == 1) return "";
  if (rings.empty())
    return "there are no rings to run on; expected GPUs of one node that a mesh of links joins, "
           "such as dgx-1v, or another algorithm, such as ring";
  for (const WeightedRing& ring : rings) {
    if (static_cast<int>(ring.order.member.size()) != place.size)
      return fmt::format("a ring of {} ranks, in a group of {}", ring.order.member.size(), place.size);
    if (ring.weight < 1) return fmt::format("a ring of weight {}; at least 1", ring.weight);
  }
  constexpr int most = kMaxStreams / 2 - 2;
  const int channels = ring_channels<directions>(place);
  return channels <= most ? "" : fmt::format("{} rings at once; at most {}", channels, most);
}

/// The rings of the settings, and the same in the opposite direction if `directions` is 2.
template <int directions>
std::vector<RingShare> weighted_rings(GroupPlace place) {
  std::vector<RingShare> shares;
  int parts = 0;
  for (const WeightedRing& ring : place.settings->rings)
    for (int direction = 0; direction < directions; ++direction) {
      const Numbering order = Numbering::from_ring(ring.order);
      shares.push_back(
          {.ring = direction == 0 ? order : order.reverse(), .first = parts, .parts = 0, .count = ring.weight});
      parts += ring.weight;
    }
  for (RingShare& share : shares) share.parts = parts;
  return shares;
}

const RegisterRings register_multi_ring{weighted_rings<1>,
                                        {.name = "multi-ring", .channels = ring_channels<1>, .refuses = no_rings<1>}},
    register_bidirectional_multi_ring{
        weighted_rings<2>, {.name = "bidirectional-multi-ring", .channels = ring_channels<2>, .refuses = no_rings<2>}};

int both_ways(GroupPlace place) { return 2 * place.settings->channels; }

std::string too_many_channels(GroupPlace place) {
  constexpr int most = kMaxStreams / 4 - 1;  // two channels of two streams each, beside the program's own streams
  return place.settings->channels <= most
             ? ""
             : fmt::format("{} channels, each in both directions; at most {}", place.settings->channels, most);
}

/// The rings of the settings' channels, each in both directions.
std::vector<RingShare> rings_both_ways(GroupPlace place) {
  const int ways = both_ways(place);
  std::vector<RingShare> rings;
  for (int k = 0; k < ways; ++k) {
    const Numbering ring = channel_ring(place.size, *place.settings, k / 2);
    rings.push_back({k % 2 == 0 ? ring : ring.reverse(), k, ways});
  }
  return rings;
}

std::vector<int> role_both_ways(GroupPlace place) {
  if (place.settings->channels == 1) return {};
  return role_in_rings(rings_both_ways(place), place.index);
}

const RegisterRings register_bidirectional_ring{
    rings_both_ways,
    {.name = "bidirectional-ring", .channels = both_ways, .refuses = too_many_channels, .role = role_both_ways}};

}  // namespace

}  // namespace trainyard
