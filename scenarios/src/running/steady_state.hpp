#pragma once
#include <span>
#include <vector>

#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// A mean is known well enough if half the width of its 95 % confidence interval is at most this share of it.
constexpr double kPrecision = 0.01;

/// Returns half the width of the 95 % confidence interval of the mean of values that may depend on their neighbours.
/// Uses batch means with Student's t (Law & Kelton 2000, section 9.5.3), in 20 batches (Schmeiser 1982: 10 to 30) of
/// whole units, or one batch per unit if there are fewer units. HUGE_VAL if there are fewer than two units.
double half_width(std::span<const double> values, std::size_t unit = 1);

/// Returns the number of values at the beginning that are warm-up, by MSER-5 (White 1997) over means of `batch` values:
/// it cuts so that the sum of squared errors of the remaining means, over their number squared, is least. 0 if there are
/// fewer than ten batches. A cut beyond the middle means that the warm-up is not over yet.
std::size_t warm_up(std::span<const double> values, std::size_t batch);

/// Finds, step by step, where the steady state of a run begins and when its mean step time is known.
class SteadyState {
 public:
  /// `steps`: number of steps to average if `search.is_given`, else the most steps.
  SteadyState(const StepSearch& search, int steps);

  /// Returns the most steps that a search takes.
  static int most(const StepSearch&, int steps);

  /// Adds the time of the next step. Returns whether the steps are enough.
  bool add(double seconds);
  int warm() const { return warm_; }  ///< number of warm-up steps; valid when the steps are enough
  int steps() const { return static_cast<int>(seconds_.size()) - warm_; }
  double half_width() const { return half_width_; }  ///< s; HUGE_VAL: one step has none

 private:
  StepSearch search_;
  int steps_, most_;
  std::size_t check_;  // number of steps at the next check
  std::vector<double> seconds_;
  int warm_ = 0;
  double half_width_ = 0;
};

}  // namespace trainyard
