#include "strategies/collective.hpp"

namespace trainyard {
namespace {

/// The largest power of two of the ranks take part; of the first 2·(n − it) ranks the odd ones stand back.
struct HalvingPlace {
  int taking_part = 1, standing_back = 0;
  explicit HalvingPlace(int n) {
    while (taking_part * 2 <= n) taking_part *= 2;
    standing_back = n - taking_part;
  }
  bool paired(int rank) const { return rank < 2 * standing_back; }
  bool stands_back(int rank) const { return paired(rank) && rank % 2 == 1; }
  int number(int rank) const { return paired(rank) ? rank / 2 : rank - standing_back; }
  int rank(int number) const { return number < standing_back ? 2 * number : number + standing_back; }
};

std::vector<int> halving_peers(GroupPlace place) {
  const HalvingPlace part(place.size);
  if (part.stands_back(place.index)) return {place.index - 1};
  std::vector<int> peers;
  if (part.paired(place.index)) peers.push_back(place.index + 1);
  for (int mask = 1; mask < part.taking_part; mask *= 2) peers.push_back(part.rank(part.number(place.index) ^ mask));
  return peers;
}

/// Recursive halving, then doubling (Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005): partners exchange halves of
/// what they still hold and add them up, then give the sums back the same way. 2·log2 n steps; each rank sends
/// 2(n−1)/n of `size`. Where n is no power of two, some ranks hand their data to a neighbour before, and get the sum
/// after: 2 steps and 2 · `size` of those pairs more.
Ops halving_doubling_all_reduce(Local me, Bytes) {
  const HalvingPlace part(me.group_size());
  const int rank = me.index();
  if (part.stands_back(rank)) {
    co_yield me.send(rank - 1, me.whole());
    co_yield me.recv_copy(rank - 1, me.whole());
    co_return;
  }
  if (part.paired(rank)) co_yield me.recv_reduce(rank + 1, me.whole());
  const int number = part.number(rank);
  int piece = 0, pieces = 1;
  for (int mask = part.taking_part / 2; mask >= 1; mask /= 2) {
    const int partner = part.rank(number ^ mask), upper = (number & mask) != 0 ? 1 : 0;
    pieces *= 2;
    co_yield me.send(partner, me.part(2 * piece + 1 - upper, pieces));
    co_yield me.recv_reduce(partner, me.part(2 * piece + upper, pieces));
    piece = 2 * piece + upper;
  }
  for (int mask = 1; mask < part.taking_part; mask *= 2) {
    const int partner = part.rank(number ^ mask);
    co_yield me.send(partner, me.part(piece, pieces));
    co_yield me.recv_copy(partner, me.part(piece ^ 1, pieces));
    piece /= 2;
    pieces /= 2;
  }
  if (part.paired(rank)) co_yield me.send(rank + 1, me.whole());
}

TRAINYARD_COLLECTIVE("halving-doubling", Operation::all_reduce, halving_peers, halving_doubling_all_reduce,
                     .steady = true);

}  // namespace
}  // namespace trainyard
