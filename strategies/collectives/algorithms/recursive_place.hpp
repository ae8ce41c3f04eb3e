#pragma once
#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Recursive algorithms need a power of two: the largest one of the ranks take part, and of the first 2·(n − it) ranks
/// the odd ones stand back; their neighbour stands for them (Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005).
struct RecursivePlace {
  int taking_part = 1, standing_back = 0;
  explicit RecursivePlace(int n) {
    while (taking_part * 2 <= n) taking_part *= 2;
    standing_back = n - taking_part;
  }
  bool paired(int rank) const { return rank < 2 * standing_back; }
  bool stands_back(int rank) const { return paired(rank) && rank % 2 == 1; }
  /// Of a rank that takes part; numbers from `number` on stand for ranks from `rank(number)` on.
  int number(int rank) const { return paired(rank) ? rank / 2 : rank - standing_back; }
  int rank(int number) const { return number < standing_back ? 2 * number : number + standing_back; }
};
/// The neighbour of a pair, and the ranks at distances 1, 2, 4 … of those that take part.
std::vector<int> recursive_peers(GroupPlace);
/// Those that take part alone, those that stand for another, those that stand back.
std::vector<int> recursive_role(GroupPlace);
/// Flows of other numbers of ranks than powers of two: those that stand back are not busy in every step.
std::string recursive_refuses(GroupPlace);

}  // namespace trainyard
