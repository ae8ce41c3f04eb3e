#pragma once
#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Recursive algorithms need a number of ranks that is a power of two. Of n ranks only p take part, the largest power
/// of two p ≤ n. The first 2·(n − p) ranks form pairs of an even rank and the next one. The odd rank of a pair is a
/// bystander: the even rank takes part for both (Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005).
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
/// Runs `steps` of the ranks that take part. Before them a bystander hands all its data to its partner. After them it
/// gets back its block of the result, or the whole result: 2 more steps.
enum class ResultPart { block, whole };
Ops run_with_partners(Local, Ops steps, ResultPart);

/// Returns the ranks that a rank exchanges messages with: its partner if it is paired, and, if it takes part, the ranks
/// whose numbers differ from its own in one bit.
std::vector<int> recursive_peers(GroupPlace);
/// Returns the role of a rank: {0} if it takes part for itself alone, {1} if also for its partner, {2} if it is a
/// bystander.
std::vector<int> recursive_role(GroupPlace);
/// Refuses flows if the number of ranks is no power of two: bystanders are not busy in every step.
std::string recursive_refuses(GroupPlace);

}  // namespace trainyard
