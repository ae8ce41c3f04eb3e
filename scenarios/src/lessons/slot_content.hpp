#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// The initial data of `rank` in `slot`, counted `count` times.
struct Contribution {
  int slot = 0, rank = 0, count = 1;
  bool operator==(const Contribution&) const = default;
};

/// The contents of one slot of a buffer.
struct SlotContent {
  std::vector<Contribution> parts;  ///< sorted by slot, then by rank; empty: no data yet
  bool divided = false;             ///< the sum is divided by the number of ranks (an average)
  bool unknown = false;             ///< a mixture whose parts cannot be recovered
  bool complete = false;            ///< the slot has the operation's final result
  bool stale = false;               ///< the data belong to another slot
  bool changed = false;             ///< the previous step changed it
  std::string text;                 ///< "a0+a2", "max(a0,a2)", "a0·a2", "(a0+a1)/2", "0→2"; "·" if empty
};

}  // namespace trainyard
