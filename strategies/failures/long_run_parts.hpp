#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "strategies/failures/long_run.hpp"

// Bookkeeping of a long run: prescribed failures, pace, saved work, nodes.
namespace trainyard {

/// The prescribed failures that come after a number of steps, in the order of that number.
class FailuresBySteps {
 public:
  explicit FailuresBySteps(const std::vector<SetFailure>& failures) : failures_(failures) {
    for (std::size_t i = 0; i < failures.size(); ++i)
      if (failures[i].after_step) order_.push_back(i);
    std::ranges::stable_sort(
        order_, [&failures](std::size_t a, std::size_t b) { return failures[a].after_step < failures[b].after_step; });
  }
  /// Number of steps before the next failure; infinite if there is none.
  double next() const { return taken_ < order_.size() ? *failures_[order_[taken_]].after_step : HUGE_VAL; }
  /// Removes the next failure and returns its index in the plan.
  std::size_t take() { return order_[taken_++]; }

 private:
  const std::vector<SetFailure>& failures_;
  std::vector<std::size_t> order_;
  std::size_t taken_ = 0;
};

/// An interval of training without a pause. The pace (seconds for each step) may change in the middle of a step. Times
/// are in seconds.
class TrainingInterval {
 public:
  void begin(double now) {
    since_ = now;
    done_ = before_ = 0;
  }
  /// Ends the part of the interval with this pace; another pace follows.
  void change_pace(double now, double pace) {
    done_ = steps(now, pace);
    before_ += now - since_;
    since_ = now;
  }
  /// Steps done, with the fraction of the current step.
  double steps(double now, double pace) const { return done_ + (now - since_) / pace; }
  /// Time from the last change of pace until `steps` steps are done.
  double time_to(double steps, double pace) const { return (steps - done_) * pace; }
  /// Time that the first `steps` whole steps of the interval have taken.
  double time_of(double steps, double pace) const {
    return steps < done_ ? before_ * steps / done_ : before_ + (steps - done_) * pace;
  }

 private:
  double since_ = 0;
  double done_ = 0, before_ = 0;  // steps and seconds before the last change of pace
};

/// The steps that a training has done, and those that a complete checkpoint holds.
class SavedWork {
 public:
  double steps() const { return steps_; }
  double snapshot() const { return snapshot_; }  ///< steps in the checkpoint that was begun last

  void add_steps(double steps, double seconds) {
    steps_ += steps;
    after_snapshot_ += seconds;
  }
  /// Begins a checkpoint of all steps done so far.
  void begin_checkpoint() {
    snapshot_ = steps_;
    before_snapshot_ += std::exchange(after_snapshot_, 0);
  }
  /// Completes the checkpoint. Returns false if it has no more steps than the one before.
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
  /// Returns to the last complete checkpoint.
  LostWork fall_back() {
    const LostWork lost{steps_ - saved_, Seconds{before_snapshot_ + after_snapshot_}};
    before_snapshot_ = after_snapshot_ = 0;
    steps_ = snapshot_ = saved_;
    return lost;
  }
  /// Training time since the last checkpoint was begun.
  Seconds since_snapshot() const { return Seconds{after_snapshot_}; }
  /// Training time that was not lost.
  Seconds trained() const { return Seconds{kept_ + (before_snapshot_ + after_snapshot_)}; }

 private:
  double steps_ = 0, snapshot_ = 0, saved_ = 0;
  /// Training time in no complete checkpoint, in seconds: before and after the last snapshot.
  double before_snapshot_ = 0, after_snapshot_ = 0;
  double kept_ = 0;  ///< training time in a complete checkpoint, in seconds
};

/// The nodes of a training, which its replicas share evenly. Tracks the places whose nodes are absent without a
/// replacement. Nodes of a broken replica replace those of others, so that as few replicas as possible are broken.
class NodePool {
 public:
  NodePool(int nodes, int replicas, std::optional<int> spares) : nodes_(nodes), replicas_(replicas), spares_(spares) {}

  bool is_complete() const { return missing_.empty(); }
  int missing() const { return static_cast<int>(missing_.size()); }  ///< number of empty places
  /// True if the node is absent without a replacement.
  bool is_away(std::optional<int> node) const { return node && std::ranges::find(missing_, node) != missing_.end(); }
  /// Number of complete replicas.
  int replicas() const { return replicas_without(missing()); }

  /// A node fails (no value: any node), and a spare takes its place if there is one. Returns false if it need not be
  /// repaired, because there are always enough spares or because all places are empty already.
  bool lose(std::optional<int> node) {
    if (!spares_ || missing() == nodes_) return false;
    if (*spares_ <= in_repair_) missing_.push_back(node);
    ++in_repair_;
    return true;
  }
  /// A repaired node returns. Returns false if no place is free, so that the node becomes a spare.
  bool end_repair() {
    --in_repair_;
    return missing() > joining_;
  }
  /// A repaired node takes the place that has been empty longest.
  void take_back() { missing_.pop_front(); }

  /// Returns true if one more node would complete a replica.
  bool next_completes_replica() const { return joining_ > 0 || replicas_without(missing() - 1) > replicas(); }
  void delay_return() { ++joining_; }
  bool has_waiting() const { return joining_ > 0; }
  void take_back_waiting() { missing_.erase(missing_.begin(), missing_.begin() + std::exchange(joining_, 0)); }

 private:
  int nodes_, replicas_;
  std::optional<int> spares_;               ///< No value: always enough
  std::deque<std::optional<int>> missing_;  ///< in the order of failures, which is the order of repairs
  int in_repair_ = 0;
  int joining_ = 0;  ///< repaired nodes that wait for the end of a step

  int replicas_without(int nodes) const { return static_cast<int>(std::int64_t{nodes_ - nodes} * replicas_ / nodes_); }
};

}  // namespace trainyard
