#pragma once

namespace trainyard {

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

}  // namespace trainyard
