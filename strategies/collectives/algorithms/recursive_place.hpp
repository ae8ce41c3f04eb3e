#pragma once
#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Recursive algorithms need a number of ranks that is a power of two. Of n ranks only p take part, the largest power
/// of two p ≤ n. The first 2·(n − p) ranks form pairs of an even rank and the next one. The odd rank of a pair does not
/// take part ("stands back"): the even rank takes part for both (Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005).
struct RecursivePlace {
  int taking_part = 1, standing_back = 0;
  explicit RecursivePlace(int n) {
    while (taking_part * 2 <= n) taking_part *= 2;
    standing_back = n - taking_part;
  }
  bool is_paired(int rank) const { return rank < 2 * standing_back; }
  bool stands_back(int rank) const { return is_paired(rank) && rank % 2 == 1; }
  /// Numbers the ranks that take part from 0 to p − 1, in ascending order of ranks. `rank` is the inverse.
  int number(int rank) const { return is_paired(rank) ? rank / 2 : rank - standing_back; }
  int rank(int number) const { return number < standing_back ? 2 * number : number + standing_back; }
};
/// Returns the ranks that a rank exchanges messages with: its partner if it is paired, and, if it takes part, the ranks
/// whose numbers differ from its own in one bit.
std::vector<int> recursive_peers(GroupPlace);
/// Returns the role of a rank: {0} if it takes part for itself alone, {1} if also for its partner, {2} if it stands
/// back.
std::vector<int> recursive_role(GroupPlace);
/// Refuses flows if the number of ranks is no power of two: ranks that stand back are not busy in every step.
std::string recursive_refuses(GroupPlace);

}  // namespace trainyard
