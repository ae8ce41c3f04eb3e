#pragma once
#include <algorithm>
#include <utility>
#include <vector>

namespace trainyard {

/// Length of the union of intervals, in s: time that several of them cover counts once.
class CoveredTime {
 public:
  /// Adds an interval. Intervals must be added in the order of their ends.
  void cover(double begin, double end) {
    while (!parts_.empty() && parts_.back().second >= begin) {
      const auto [from, to] = parts_.back();
      total_ -= to - from;
      begin = std::min(begin, from);
      end = std::max(end, to);
      parts_.pop_back();
    }
    parts_.emplace_back(begin, end);
    total_ += end - begin;
  }
  double total() const { return total_; }

 private:
  std::vector<std::pair<double, double>> parts_;  // begin and end of disjoint intervals, in their order
  double total_ = 0;
};

}  // namespace trainyard
