#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sim/observer.hpp"

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

/// An observer in which repeated rounds change nothing but a set of numbers. `Sums` is the derived class: its
/// each_number(visit) calls visit(double&) for all of them, always in the same order. Differences in the last bits of
/// its rounding_scale() count as rounding.
template <class Sums>
class NumberSums : public Observer, private RoundSums {
 public:
  RoundSums* round_sums() override { return this; }
  static double rounding_scale() { return 0; }

 private:
  Growth growth_;

  Sums& sums() { return static_cast<Sums&>(*this); }
  bool end_round(std::span<const OpId>) override {
    return growth_.end_round(sums().rounding_scale(), [this](auto visit) { sums().each_number(visit); });
  }
  void repeat_round(double times) override {
    growth_.repeat_round(times, [this](auto visit) { sums().each_number(visit); });
  }
};

}  // namespace trainyard
