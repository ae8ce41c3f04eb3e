// The rings of a mesh of point-to-point links, all at the same time, each with a share of the data in proportion to
// its width: NCCL's rings of a DGX-1. The settings list the rings of the machine.
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
  if (rings.empty()) return "there are no rings to run on: the settings name none";
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

}  // namespace
}  // namespace trainyard
