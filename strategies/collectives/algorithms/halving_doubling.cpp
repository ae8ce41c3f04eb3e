#include <fmt/format.h>

#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// Recursive algorithms need a number of ranks that is a power of two. If there are n ranks, p take part: the largest
/// power of two that is at most n. The first 2·(n − p) ranks form pairs of an even rank and the next one. An odd rank
/// there is a bystander: the even rank takes part for both (Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005).
struct RecursivePlace {
  int participants = 1, bystanders = 0;
  explicit RecursivePlace(int n) {
    while (participants * 2 <= n) participants *= 2;
    bystanders = n - participants;
  }
  bool is_paired(int rank) const { return rank < 2 * bystanders; }
  bool is_bystander(int rank) const { return is_paired(rank) && rank % 2 == 1; }
  /// Numbers the ranks that take part from 0 to p − 1, in ascending order of ranks. `rank` is the inverse.
  int number(int rank) const { return is_paired(rank) ? rank / 2 : rank - bystanders; }
  int rank(int number) const { return number < bystanders ? 2 * number : number + bystanders; }
};

enum class ResultPart { block, whole };

/// Runs `steps` of the ranks that take part. Before them a bystander hands all its data to its partner. After them it
/// gets back its block of the result, or the whole result: 2 more steps.
Ops run_with_partners(Local me, Ops steps, ResultPart result) {
  const RecursivePlace part(me.group_size());
  const int rank = me.index();
  const bool paired = part.is_paired(rank), waits = part.is_bystander(rank);
  const Chunk returned = result == ResultPart::whole ? me.whole_chunk() : me.block(waits ? rank : rank + 1);
  if (waits) {
    co_yield me.send(rank - 1, me.whole_chunk());
    co_yield me.recv_copy(rank - 1, returned);
    co_return;
  }
  if (paired) co_yield me.recv_reduce(rank + 1, me.whole_chunk());
  co_yield me.phase();
  co_yield steps;
  if (paired) co_yield me.send(rank + 1, returned);
}

/// Returns the ranks that a rank exchanges messages with: its partner if it is paired, and, if it takes part, the ranks
/// whose numbers differ from its own in one bit.
std::vector<int> recursive_peers(GroupPlace place) {
  const RecursivePlace part(place.size);
  if (part.is_bystander(place.index)) return {place.index - 1};
  std::vector<int> peers;
  if (part.is_paired(place.index)) peers.push_back(place.index + 1);
  for (int mask = 1; mask < part.participants; mask *= 2) peers.push_back(part.rank(part.number(place.index) ^ mask));
  return peers;
}

/// Returns the role of a rank: {0} if it takes part for itself alone, {1} if also for its partner, {2} if it is a
/// bystander.
std::vector<int> recursive_role(GroupPlace place) {
  const RecursivePlace part(place.size);
  return {part.is_bystander(place.index) ? 2 : part.is_paired(place.index) ? 1 : 0};
}

/// Refuses flows if the number of ranks is no power of two: bystanders are not busy in every step.
std::string recursive_refuses(GroupPlace place) {
  if (place.settings->fidelity != Fidelity::flows || RecursivePlace(place.size).bystanders == 0) return "";
  return fmt::format("{} ranks are no power of two, so that some wait for others; take fidelity messages", place.size);
}

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

// Recursive doubling (Thakur, Rabenseifner & Gropp 2005): partners at distances 1, 2, 4, … exchange all their data.

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
