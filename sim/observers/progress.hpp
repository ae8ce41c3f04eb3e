#pragma once
#include <chrono>
#include <string>

#include "sim/observer.hpp"

namespace trainyard {

/// A line on the terminal once a job runs for over 2 s; nothing when stderr is not a terminal, nor of a thread that works
/// for another one, which shows how far all is. Where the thread has a Job, that is told instead.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  ///< takes the line away
  void show(const std::string& text);

 private:
  bool silent_, terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

/// Shows how far a simulation is, by its operations and its clock.
class Progress : public Observer {
 public:
  Interest interest() const override {
    return {.level = Level::none, .transfers = false, .stretches = true, .rounds = true};
  }
  void finished(const OpRun&) override;

 private:
  ProgressLine line_;
  std::uint64_t ended_ = 0;
};

}  // namespace trainyard
