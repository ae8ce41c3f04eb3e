// Rings in both directions at the same time, each with half of the data. Full-duplex links between neighbours then
// carry twice what one ring uses (like the two-way rings of a torus: Sack & Gropp 2015). This needs a separate link to
// each neighbour: if a rank has one port, both halves share it and nothing is gained.
#include <fmt/format.h>

#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

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

const RegisterRings register_bidirectional_ring{
    rings_both_ways, {.name = "bidirectional-ring", .channels = both_ways, .refuses = too_many_channels}};

}  // namespace
}  // namespace trainyard
