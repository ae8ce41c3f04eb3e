#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

namespace trainyard {

/// The nodes of a training that its replicas share evenly: which of them are away with nothing in their place. Nodes of
/// a broken replica step in for those of others, so that as few replicas as possible are broken.
class NodePool {
 public:
  NodePool(int nodes, int replicas, int spares) : nodes_(nodes), replicas_(replicas), spares_(spares) {}

  bool complete() const { return missing_.empty(); }
  int missing() const { return static_cast<int>(missing_.size()); }  ///< places that are empty
  /// Nothing is in its place.
  bool is_away(int node) const {
    return node >= 0 && std::find(missing_.begin(), missing_.end(), node) != missing_.end();
  }
  /// Whole ones.
  int replicas() const { return replicas_without(missing()); }

  /// One fails (−1: any): a spare takes its place, if there is one. False where it is not to be repaired: there are
  /// always enough spares, or it is the last.
  bool lose(int node) {
    if (spares_ < 0 || missing() == nodes_) return false;
    if (spares_ <= in_repair_) missing_.push_back(node);
    ++in_repair_;
    return true;
  }
  /// One comes back. False where no place is free: it is a spare.
  bool end_repair() {
    --in_repair_;
    return missing() > joining_;
  }
  /// A repaired one takes the place that has been empty longest.
  void take_back() { missing_.pop_front(); }

  /// Would a replica be whole with one node more?
  bool one_makes_whole() const { return joining_ > 0 || replicas_without(missing() - 1) > replicas(); }
  void let_wait() { ++joining_; }
  bool some_wait() const { return joining_ > 0; }
  void take_back_waiting() { missing_.erase(missing_.begin(), missing_.begin() + std::exchange(joining_, 0)); }

 private:
  int nodes_, replicas_, spares_;  ///< spares −1: always enough
  std::deque<int> missing_;        ///< in the order in which they failed, as they are repaired
  int in_repair_ = 0;
  int joining_ = 0;  ///< repaired, and waiting for the end of a step

  int replicas_without(int nodes) const { return static_cast<int>(std::int64_t{nodes_ - nodes} * replicas_ / nodes_); }
};

}  // namespace trainyard
