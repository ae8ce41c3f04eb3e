#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace trainyard {

/// Growth of a set of numbers from round to round (RoundSums::end_round).
class Growth {
 public:
  /// Returns true if all numbers have grown as in the previous round. `each(visit)` calls visit(double&) for all of
  /// them, always in the same order. Differences in the last bits of `scale`, or of a number itself, count as rounding.
  template <class Each>
  bool end_round(double scale, Each&& each) {
    std::size_t i = 0;
    bool same = true;
    each([&](const double& number) {
      if (i == last_.size()) {
        last_.push_back(0);
        growth_.push_back(HUGE_VAL);
      }
      const double growth = number - last_[i];
      same = same && is_same(growth, growth_[i], std::max(scale, std::abs(number)));
      growth_[i] = growth;
      last_[i++] = number;
    });
    return same;
  }
  /// Adds the growth of `times` rounds.
  template <class Each>
  void repeat_round(double times, Each&& each) const {
    std::size_t i = 0;
    each([&](double& number) { number += times * growth_[i++]; });
  }
  static bool is_same(double growth, double before, double scale) { return std::abs(growth - before) <= 4e-15 * scale; }

 private:
  std::vector<double> last_, growth_;
};

}  // namespace trainyard
