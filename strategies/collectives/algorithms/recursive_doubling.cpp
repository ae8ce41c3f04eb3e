// Recursive doubling (Thakur, Rabenseifner & Gropp 2005): partners at distances 1, 2, 4, … exchange all their data.
#include <fmt/format.h>

#include "strategies/collectives/algorithms/recursive_place.hpp"

namespace trainyard {

namespace {

/// log2 n steps; each rank sends log2 n times `size`: few steps for short messages. If n is no power of two, some
/// ranks first hand their data to a neighbour and finally get the sum back: 2 more steps. The partner's data arrive in
/// a scratch copy, because the rank's own data are still being sent.
Ops recursive_doubling_steps(Local me) {
  const RecursivePlace part(me.group_size());
  const int rank = me.index();
  const Chunk theirs = Local::scratch(me.whole_chunk());
  for (int mask = 1; mask < part.participants; mask *= 2) {
    const int partner = part.rank(part.number(rank) ^ mask);
    co_yield me.send(partner, me.whole_chunk());
    co_yield me.recv_copy(partner, theirs);
    co_yield me.reduce(theirs, me.whole_chunk());
    co_yield me.phase();
  }
}
Ops recursive_doubling_all_reduce(Local me, Bytes) {
  return run_with_partners(me, recursive_doubling_steps(me), ResultPart::whole);
}

/// log2 n steps; each rank sends (n−1)/n of `size`: the blocks that it has, twice as many each time.
Ops recursive_doubling_all_gather(Local me, Bytes) {
  for (int mask = 1; mask < me.group_size(); mask *= 2) {
    const int partner = me.index() ^ mask;
    co_yield me.send(partner, me.blocks(me.index() & -mask, mask));
    co_yield me.recv_copy(partner, me.blocks(partner & -mask, mask));
    co_yield me.phase();
  }
}

std::string powers_of_two_only(GroupPlace place) {
  if ((place.size & (place.size - 1)) == 0) return "";
  return fmt::format("{} ranks are no power of two; take bruck or ring", place.size);
}

TRAINYARD_COLLECTIVE("recursive-doubling", Operation::all_reduce, recursive_peers, recursive_doubling_all_reduce,
                     .refuses = recursive_refuses, .steady = true, .role = recursive_role);
TRAINYARD_COLLECTIVE("recursive-doubling", Operation::all_gather, recursive_peers, recursive_doubling_all_gather,
                     .refuses = powers_of_two_only, .steady = true, .role = all_alike);

}  // namespace
}  // namespace trainyard
