#include "strategies/collectives/algorithms/recursive_place.hpp"

namespace trainyard {
namespace {

/// Reduce-scatter (Thakur, Rabenseifner & Gropp 2005): partners, at half the distance each time, exchange the blocks
/// of each other's half and add them up. log2 n steps; each rank sends (n−1)/n of `size`. If n is no power of two,
/// some ranks first hand all their data to a neighbour and finally get their block: 2 more steps.
Ops recursive_halving_steps(Local me) {
  const RecursivePlace part(me.group_size());
  const int rank = me.index();
  const int number = part.number(rank);
  // A number that takes part gets the blocks of all ranks that it stands for.
  const auto first = [&](int of_number) {
    return of_number < part.participants ? part.rank(of_number) : me.group_size();
  };
  for (int mask = part.participants / 2; mask >= 1; mask /= 2) {
    const int mine = number & -mask, theirs = mine ^ mask;
    co_yield me.send(part.rank(number ^ mask), me.blocks(first(theirs), first(theirs + mask) - first(theirs)));
    co_yield me.recv_reduce(part.rank(number ^ mask), me.blocks(first(mine), first(mine + mask) - first(mine)));
    co_yield me.phase();
  }
}
Ops recursive_halving_reduce_scatter(Local me, Bytes) {
  return run_with_partners(me, recursive_halving_steps(me), ResultPart::block);
}

TRAINYARD_COLLECTIVE("recursive-halving", Operation::reduce_scatter, recursive_peers, recursive_halving_reduce_scatter,
                     .refuses = recursive_refuses, .steady = true, .role = recursive_role);

}  // namespace
}  // namespace trainyard
