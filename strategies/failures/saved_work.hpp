#pragma once
#include <utility>

#include "sim/units.hpp"

namespace trainyard {

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

}  // namespace trainyard
