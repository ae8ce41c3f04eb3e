// Algorithms of Bruck, Ho, Kipnis, Upfal & Weathersby 1997: ⌈log2 n⌉ steps for any n, at distances 1, 2, 4, …
#include <algorithm>

#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// Each rank sends all blocks that it has (or that the receiver still misses) to the rank 1, 2, 4, … places before it.
/// Each rank sends (n−1)/n of `size`. Blocks lie at their final places, so a range may wrap round the end, and no
/// rotation follows.
Ops bruck_all_gather(Local me, Bytes) {
  const int n = me.group_size(), rank = me.index();
  for (int distance = 1; distance < n; distance *= 2) {
    const int count = std::min(distance, n - distance);
    co_yield me.send((rank + n - distance) % n, me.blocks(rank, count));
    co_yield me.recv_copy((rank + distance) % n, me.blocks(rank + distance, count));
    co_yield me.phase();
  }
}

enum class Packing { pack, unpack };

/// Copies all blocks whose number has that bit set, from their places in the data to the beginning of a scratch copy
/// (pack), or back (unpack).
Ops bruck_pack(Local me, int bit, Packing packing, int scratch) {
  const int n = me.group_size();
  int packed = 0;
  for (int first = bit; first < n; first += 2 * bit) {
    const int count = std::min(bit, n - first);
    const Chunk in_data = me.whole_chunk().parts(first, count, n);
    const Chunk in_scratch = Local::scratch(me.whole_chunk().parts(packed, count, n), scratch);
    if (packing == Packing::pack) co_yield me.copy(in_data, in_scratch);
    if (packing == Packing::unpack) co_yield me.copy(in_scratch, in_data);
    packed += count;
  }
}

int bruck_packed(int bit, int n) {
  int count = 0;
  for (int first = bit; first < n; first += 2 * bit) count += std::min(bit, n - first);
  return count;
}

/// At first, block j is the one for the rank j places ahead. For each bit set in j it moves that far, packed into one
/// message with the other blocks of that bit. At the end, block j is the one from the rank j places before. Each rank
/// sends about log2(n)/2 of `size`: few steps for short messages.
Ops bruck_all_to_all(Local me, Bytes) {
  const int n = me.group_size(), rank = me.index();
  for (int j = 0; j < n; ++j) co_yield me.copy(me.outgoing((rank + j) % n), me.part(j, n));
  for (int bit = 1; bit < n; bit *= 2) {
    const Chunk packed = me.whole_chunk().parts(0, bruck_packed(bit, n), n);
    co_yield bruck_pack(me, bit, Packing::pack, 2);
    co_yield me.send((rank + bit) % n, Local::scratch(packed, 2));
    co_yield me.recv_copy((rank + n - bit) % n, Local::scratch(packed, 3));
    co_yield bruck_pack(me, bit, Packing::unpack, 3);
    co_yield me.phase();
  }
  co_yield me.copy(me.whole_chunk(), Local::scratch(me.whole_chunk(), 2));
  for (int j = 0; j < n; ++j) co_yield me.copy(Local::scratch(me.part(j, n), 2), me.incoming((rank + n - j) % n));
}

TRAINYARD_COLLECTIVE("bruck", Operation::all_gather, power_of_two_peers, bruck_all_gather, .steady = true,
                     .role = all_alike);
TRAINYARD_COLLECTIVE("bruck", Operation::all_to_all, power_of_two_peers, bruck_all_to_all, .steady = true,
                     .role = all_alike);

}  // namespace
}  // namespace trainyard
