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

/// Ring k/2 of the settings' channels, in the opposite direction if k is odd.
Local on_way(const Local& me, int k) {
  const Numbering ring = channel_ring(me.group_size(), me.settings(), k / 2);
  return me.renumber(k % 2 == 0 ? ring : ring.reverse()).on_channel(k);
}

/// 2(n−1) steps; each rank sends (n−1)/n of the size in each direction, in chunks of 1/2n.
Ops bidirectional_all_reduce(Local me, Bytes) {
  const int ways = 2 * me.settings().channels;
  return side_by_side(me, ways,
                      [&](int k) { return one_ring_all_reduce(on_way(me, k).restrict_to(me.part(k, ways))); });
}

/// n−1 steps; half of every block goes in each direction.
Ops bidirectional_reduce_scatter(Local me, Bytes) {
  const int ways = 2 * me.settings().channels;
  return side_by_side(me, ways, [&](int k) { return one_ring_reduce_scatter(on_way(me, k).on_slice(k, ways)); });
}
Ops bidirectional_all_gather(Local me, Bytes) {
  const int ways = 2 * me.settings().channels;
  return side_by_side(me, ways, [&](int k) { return one_ring_all_gather(on_way(me, k).on_slice(k, ways)); });
}

#define BIDIRECTIONAL(OPERATION, RUN)                                                                              \
  TRAINYARD_COLLECTIVE("bidirectional-ring", Operation::OPERATION, rotated_ring_peers, RUN, .channels = both_ways, \
                       .refuses = too_many_channels, .steady = true)
BIDIRECTIONAL(all_reduce, bidirectional_all_reduce);
BIDIRECTIONAL(reduce_scatter, bidirectional_reduce_scatter);
BIDIRECTIONAL(all_gather, bidirectional_all_gather);
#undef BIDIRECTIONAL

}  // namespace
}  // namespace trainyard
