#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "strategies/failures/long_run.hpp"

// What a long run keeps account of: its prescribed failures, its pace, its saved work, its nodes.
namespace trainyard {

/// The prescribed failures that come when so many steps have ended, in that order.
class FailuresBySteps {
 public:
  explicit FailuresBySteps(const std::vector<SetFailure>& failures) : failures_(failures) {
    for (std::size_t i = 0; i < failures.size(); ++i)
      if (failures[i].after_step) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(), [&failures](std::size_t a, std::size_t b) {
      return failures[a].after_step < failures[b].after_step;
    });
  }
  /// Steps before the next one; infinite where there is none.
  double next() const { return taken_ < order_.size() ? *failures_[order_[taken_]].after_step : HUGE_VAL; }
  /// Its number in the plan.
  std::size_t take() { return order_[taken_++]; }

 private:
  const std::vector<SetFailure>& failures_;
  std::vector<std::size_t> order_;
  std::size_t taken_ = 0;
};

/// Training without a pause, whose pace (seconds a step) may change in the middle of a step. Times in seconds.
class Stretch {
 public:
  void begin(double now) {
    since_ = now;
    done_ = before_ = 0;
  }
  /// The pace has been this one, and will be another.
  void turn(double now, double pace) {
    done_ = steps(now, pace);
    before_ += now - since_;
    since_ = now;
  }
  double steps(double now, double pace) const { return done_ + (now - since_) / pace; }  ///< with the one under way
  /// From now on until so many steps are done.
  double until(double steps, double pace) const { return (steps - done_) * pace; }
  /// What so many whole steps of it have taken.
  double time_of(double steps, double pace) const {
    return steps < done_ ? before_ * steps / done_ : before_ + (steps - done_) * pace;
  }

 private:
  double since_ = 0;
  double done_ = 0, before_ = 0;  // steps and seconds before that
};

/// The steps that a training has done, and which of them a whole checkpoint has.
class SavedWork {
 public:
  double steps() const { return steps_; }
  double snapshot() const { return snapshot_; }  ///< steps in the last checkpoint that was begun

  void done(double steps, double seconds) {
    steps_ += steps;
    after_snapshot_ += seconds;
  }
  /// A checkpoint begins: of all that is done.
  void begin_checkpoint() {
    snapshot_ = steps_;
    before_snapshot_ += std::exchange(after_snapshot_, 0);
  }
  /// It is whole. False where it has nothing that the one before had not.
  bool end_checkpoint() {
    const bool more = snapshot_ > saved_;
    saved_ = snapshot_;
    kept_ += std::exchange(before_snapshot_, 0);
    return more;
  }

  struct LostWork {
    double steps = 0;
    Seconds work;
  };
  /// Back to the last whole checkpoint.
  LostWork fall_back() {
    const LostWork lost{steps_ - saved_, Seconds{before_snapshot_ + after_snapshot_}};
    before_snapshot_ = after_snapshot_ = 0;
    steps_ = snapshot_ = saved_;
    return lost;
  }
  /// Training since the last checkpoint was begun.
  Seconds since_snapshot() const { return Seconds{after_snapshot_}; }
  /// All training that was not lost.
  Seconds trained() const { return Seconds{kept_ + (before_snapshot_ + after_snapshot_)}; }

 private:
  double steps_ = 0, snapshot_ = 0, saved_ = 0;
  double before_snapshot_ = 0, after_snapshot_ = 0;  ///< seconds of training that no whole checkpoint has
  double kept_ = 0;                                  ///< the same, of what one has
};

/// The nodes of a training that its replicas share evenly: which of them are away with nothing in their place. Nodes of
/// a broken replica step in for those of others, so that as few replicas as possible are broken.
class NodePool {
 public:
  NodePool(int nodes, int replicas, std::optional<int> spares) : nodes_(nodes), replicas_(replicas), spares_(spares) {}

  bool complete() const { return missing_.empty(); }
  int missing() const { return static_cast<int>(missing_.size()); }  ///< places that are empty
  /// Nothing is in its place.
  bool is_away(std::optional<int> node) const {
    return node && std::find(missing_.begin(), missing_.end(), node) != missing_.end();
  }
  /// Whole ones.
  int replicas() const { return replicas_without(missing()); }

  /// One fails (none: any): a spare takes its place, if there is one. False where it is not to be repaired: there are
  /// always enough spares, or it is the last.
  bool lose(std::optional<int> node) {
    if (!spares_ || missing() == nodes_) return false;
    if (*spares_ <= in_repair_) missing_.push_back(node);
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
  int nodes_, replicas_;
  std::optional<int> spares_;               ///< none: always enough
  std::deque<std::optional<int>> missing_;  ///< in the order in which they failed, as they are repaired
  int in_repair_ = 0;
  int joining_ = 0;  ///< repaired, and waiting for the end of a step

  int replicas_without(int nodes) const { return static_cast<int>(std::int64_t{nodes_ - nodes} * replicas_ / nodes_); }
};

}  // namespace trainyard
