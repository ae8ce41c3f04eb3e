#pragma once
#include <Eigen/Core>
#include <string>
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "strategies/collectives/collective_program.hpp"

namespace trainyard {

/// Symbolic buffers, cut into slots a, b, c …. The numbers in a slot say whose data the slot has, however the data were
/// moved. A slot has three numbers for each rank: how often it has the rank's data, that count times the number of the
/// original slot, and that count times a scramble of the original slot, which reveals mixtures. A sum adds these
/// numbers, a maximum keeps the larger ones, and for a product they are exponents of two.
class SlotSymbols {
 public:
  /// `labels_from`: number of the first rank in texts.
  SlotSymbols(Operation, const CollectiveSettings&, int ranks, int slots, int labels_from = 0);

  int slots() const { return slots_; }
  Eigen::Index numbers_per_slot() const { return 3 * Eigen::Index{ranks_}; }
  /// Returns the numbers of a buffer without data.
  Eigen::VectorXd empty() const { return Eigen::VectorXd::Zero(slots_ * numbers_per_slot()); }
  /// Returns the numbers of a rank's buffer at the beginning.
  Eigen::VectorXd initial(int rank) const;
  /// Decodes one slot of a member's buffer. `rank`: a rank, or a switch from `ranks` on.
  SlotContent read(const Eigen::VectorXd& buffer, int slot, int rank) const;
  std::string rank_name(int rank) const { return "GPU" + std::to_string(rank + labels_from_); }
  /// Returns "a" … "z", "aa" …; for an all-to-all "block 2".
  std::string slot_name(int slot) const;
  /// Returns true if the operation guarantees that this slot of this rank is complete at the end.
  bool is_promised(int rank, int slot) const;

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

/// Returns the number of slots into which buffers must be cut so that every range in the programs of `members` (ranks,
/// then switches) is a whole number of slots. Throws UserError if it is above `most`, or if all steps together would
/// show too many slots to look at.
int slots_needed(const Collective&, int ranks, const std::vector<Actor>& members, const CollectiveOptions&, int most);

}  // namespace trainyard
