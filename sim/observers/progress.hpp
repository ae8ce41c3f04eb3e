#pragma once
#include <chrono>
#include <string>

#include "sim/observer.hpp"

namespace trainyard {

/// A progress line on the terminal, shown once a job runs for more than 2 s. Nothing is shown if stderr is not a
/// terminal, or if the thread works for another one that shows the progress of all. If the thread has a Job, the job is
/// informed instead.
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
  Interest interest() const override {
    return {.level = Level::none, .transfers = false, .stretches = true, .rounds = true};
  }
  void finished(const OpRun&) override;

 private:
  ProgressLine line_;
  std::uint64_t ended_ = 0;
};

}  // namespace trainyard
