#pragma once
#include <span>
#include <vector>

#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// A mean is known well enough when its 95 % confidence interval reaches no further than this part of it to each side.
constexpr double kPrecision = 0.01;

/// Half the width of the 95 % confidence interval of the mean of values that may depend on their neighbours: batch means
/// with Student's t (Law & Kelton 2000, section 9.5.3), in 20 batches (Schmeiser 1982: 10 to 30) of whole units, or one a
/// unit of fewer values. HUGE_VAL of fewer than two units.
double half_width(std::span<const double> values, std::size_t unit = 1);

/// How many values at the beginning are warm-up: MSER-5 (White 1997) over means of `batch` values: the cut after which the
/// rest tells its mean best, by its squared error over its number squared. 0 of fewer than ten batches. A cut beyond the
/// middle says that the warm-up is not over yet.
std::size_t warm_up(std::span<const double> values, std::size_t batch);

/// Finds in a run, step by step, where its steady state begins and when its mean step is known.
class SteadyState {
 public:
  /// `steps`: as many are looked at where the search is given them; otherwise at most.
  SteadyState(const StepSearch& search, int steps);

  /// Steps that are never exceeded.
  static int most(const StepSearch&, int steps);

  /// The next step took so long. Returns whether that is enough.
  bool add(double seconds);
  int warm() const { return warm_; }  ///< steps, when it is enough
  int steps() const { return static_cast<int>(seconds_.size()) - warm_; }
  double half_width() const { return half_width_; }  ///< s; HUGE_VAL: one step has none

 private:
  StepSearch search_;
  int steps_, most_;
  std::size_t check_;  // when so many steps are there
  std::vector<double> seconds_;
  int warm_ = 0;
  double half_width_ = 0;
};

}  // namespace trainyard
