#pragma once
#include <chrono>

namespace trainyard {

/// Times progress lines without a terminal: every ten seconds; unless requested, only from the second minute on.
class ProgressPace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kEvery{10}, kUnasked{60};

  explicit ProgressPace(Clock::time_point start) : start_(start), last_(start) {}
  /// Returns true if a line is due. It then counts as written.
  bool is_due(Clock::time_point now, bool asked) {
    if ((!asked && now - start_ < kUnasked) || now - last_ < kEvery) return false;
    last_ = now;
    return true;
  }

 private:
  Clock::time_point start_, last_;
};

}  // namespace trainyard
