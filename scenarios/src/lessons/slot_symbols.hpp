#pragma once
#include <Eigen/Core>
#include <string>
#include <vector>

#include "strategies/collectives/collective.hpp"
#include "strategies/collectives/collective_program.hpp"

namespace trainyard {

/// `count` times what rank `rank` had in slot `slot` at the beginning.
struct Contribution {
  int slot = 0, rank = 0, count = 1;
  bool operator==(const Contribution&) const = default;
};

/// What a slot of a buffer holds.
struct SlotContent {
  std::vector<Contribution> parts;  ///< by slot, then by rank; empty: nothing yet
  bool divided = false;             ///< by the number of ranks (an average)
  bool unknown = false;             ///< a mixture that cannot be told apart
  bool complete = false;            ///< what the operation leaves in this slot
  bool stale = false;               ///< of another slot
  bool changed = false;             ///< by the step before
  std::string text;                 ///< "a0+a2", "max(a0,a2)", "a0·a2", "(a0+a1)/2", "0→2"; "·" for nothing
};

/// Buffers in symbols: cut into slots a, b, c …, each of which is a few numbers that say exactly whose data have come
/// there, whatever moved them. Of each rank a slot has three: how often its data are in it, and twice that weighted by
/// where they came from (by the slot, and by a scramble of it, which shows mixtures). Sums add these up; for a product
/// they are exponents of two; a maximum keeps the larger.
class SlotSymbols {
 public:
  /// `labels_from`: the number that the first rank has in words.
  SlotSymbols(Operation, const CollectiveSettings&, int ranks, int slots, int labels_from = 0);

  int slots() const { return slots_; }
  Eigen::Index numbers_per_slot() const { return 3 * Eigen::Index{ranks_}; }
  /// Of a buffer with nothing in it.
  Eigen::VectorXd empty() const { return Eigen::VectorXd::Zero(slots_ * numbers_per_slot()); }
  /// What a rank has at the beginning.
  Eigen::VectorXd initial(int rank) const;
  /// Slot `slot` of the buffer of `rank` (or, from `ranks` on, of a switch).
  SlotContent read(const Eigen::VectorXd& buffer, int slot, int rank) const;
  std::string rank_name(int rank) const { return "GPU" + std::to_string(rank + labels_from_); }
  /// "a" … "z", "aa" …; of an all-to-all "block 2".
  std::string slot_name(int slot) const;
  /// Does the operation promise that this slot of that rank is complete at the end?
  bool promised(int rank, int slot) const;

 private:
  Operation operation_;
  Reduction reduction_;
  int ranks_, root_, slots_, labels_from_;

  int slots_per_block() const { return slots_ / ranks_; }
  bool exchanges() const { return operation_ == Operation::all_to_all || operation_ == Operation::all_to_all_v; }
  bool holds(int rank, int slot) const;
  bool complete(const SlotContent&, int slot, int rank) const;
  std::string text(const SlotContent&) const;
  std::string word(const Contribution&) const;
};

/// Into how many slots buffers must be cut so that all that the programs of `members` (the ranks, then switches) name is
/// whole slots. Throws UserError above `most`, and where the steps together would show too many to be looked at.
int slots_needed(const Collective&, int ranks, const std::vector<Actor>& members, const CollectiveOptions&, int most);

}  // namespace trainyard
