#pragma once
#include <chrono>
#include <string>

#include "sim/observer.hpp"

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

/// Returns a text of one line in at most `columns` characters; a longer one ends with "…". 0: it stays as it is.
std::string cut_line(const std::string& text, std::size_t columns);

/// Shows progress on stderr. On a terminal it is one line that is overwritten and as wide as the terminal at most, from
/// 2 s after the start of the process on. Elsewhere it is one line of text after another, at the times of
/// `ProgressPace`. A thread that has a Job informs the job instead. Nothing is shown with --quiet. A thread that works
/// for another one shows nothing either: the other one shows the progress of all.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  ///< removes the line
  void show(const std::string& text);

 private:
  bool silent_, terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

/// Shows the progress of a simulation: its number of operations and its clock.
class Progress : public Observer {
 public:
  Interest interest() const override { return kSums; }
  void finished(const OpRun&) override;

 private:
  ProgressLine line_;
  std::uint64_t ended_ = 0;
};

}  // namespace trainyard
