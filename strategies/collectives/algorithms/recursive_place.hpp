#pragma once
#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Recursive algorithms need a power of two. The largest power of two p ≤ n takes part. Of the first 2·(n − p) ranks
/// the odd ones stand back, and their neighbours stand in for them (Rabenseifner 2004; Thakur, Rabenseifner & Gropp
/// 2005).
struct RecursivePlace {
  int taking_part = 1, standing_back = 0;
  explicit RecursivePlace(int n) {
    while (taking_part * 2 <= n) taking_part *= 2;
    standing_back = n - taking_part;
  }
  bool paired(int rank) const { return rank < 2 * standing_back; }
  bool stands_back(int rank) const { return paired(rank) && rank % 2 == 1; }
  /// Returns the number of a rank that takes part. Numbers from `number` on stand for ranks from `rank(number)` on.
  int number(int rank) const { return paired(rank) ? rank / 2 : rank - standing_back; }
  int rank(int number) const { return number < standing_back ? 2 * number : number + standing_back; }
};
/// Returns the rank's partner in its pair, and the ranks at distances 1, 2, 4, … among those that take part.
std::vector<int> recursive_peers(GroupPlace);
/// Returns one of three roles: a rank takes part for itself alone, or also for its neighbour, or stands back.
std::vector<int> recursive_role(GroupPlace);
/// Refuses flows if the number of ranks is no power of two: ranks that stand back are not busy in every step.
std::string recursive_refuses(GroupPlace);

}  // namespace trainyard
