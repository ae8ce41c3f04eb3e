#include "strategies/collectives/algorithms/recursive_place.hpp"

namespace trainyard {
namespace {

/// Recursive halving, then doubling (Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005): partners exchange halves
/// of the data that they still hold and add them up, then return the sums in the same way. 2·log2 n steps; each rank
/// sends 2(n−1)/n of `size`. If n is no power of two, some ranks first hand their data to a neighbour and finally get
/// the sum back: 2 more steps, with 2 · `size` for these pairs.
Ops halving_doubling_steps(Local me) {
  const RecursivePlace part(me.group_size());
  const int rank = me.index();
  const int number = part.number(rank);
  int piece = 0, pieces = 1;
  for (int mask = part.participants / 2; mask >= 1; mask /= 2) {
    const int partner = part.rank(number ^ mask), upper = (number & mask) != 0 ? 1 : 0;
    pieces *= 2;
    co_yield me.send(partner, me.part(2 * piece + 1 - upper, pieces));
    co_yield me.recv_reduce(partner, me.part(2 * piece + upper, pieces));
    piece = 2 * piece + upper;
    co_yield me.phase();
  }
  for (int mask = 1; mask < part.participants; mask *= 2) {
    const int partner = part.rank(number ^ mask);
    co_yield me.send(partner, me.part(piece, pieces));
    co_yield me.recv_copy(partner, me.part(piece ^ 1, pieces));
    piece /= 2;
    pieces /= 2;
    co_yield me.phase();
  }
}
Ops halving_doubling_all_reduce(Local me, Bytes) {
  return run_with_partners(me, halving_doubling_steps(me), ResultPart::whole);
}

TRAINYARD_COLLECTIVE("halving-doubling", Operation::all_reduce, recursive_peers, halving_doubling_all_reduce,
                     .refuses = recursive_refuses, .steady = true, .role = recursive_role);

}  // namespace
}  // namespace trainyard
