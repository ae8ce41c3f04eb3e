#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

namespace trainyard {

/// What was asked for was not done, since `interrupted()`. Exit code 3.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// Number of processors this process may use.
int processors();

/// From then on SIGINT and SIGTERM end a process in order: `interrupted()` says that one has come. The process dies of
/// the signal when a second has passed and the process has used a second of the processor, and at once with a second
/// signal.
void watch_interrupts();

/// Has a signal come, was this thread's job stopped, or has its time limit passed? Work then ends as soon as it can.
bool interrupted();
/// Throws Interrupted where that is so.
void end_if_interrupted();

/// Work that somebody waits for, and that can be stopped apart from all else in this process.
struct Job {
  std::atomic<bool> stopped = false;
  /// Is told by the thread at work how far it is, a line each time; empty: nobody is.
  std::function<void(const std::string&)> progress = {};
};

/// As long as it lives, this thread works for the job, and so do the threads that it starts by `in_parallel`.
class JobScope {
 public:
  explicit JobScope(const Job&);
  ~JobScope();
  JobScope(const JobScope&) = delete;
  JobScope& operator=(const JobScope&) = delete;

 private:
  const Job* outer_;
};

/// As long as it lives, this thread is `interrupted()` once so much wall time has passed, and so are the threads that it
/// starts by `in_parallel`.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  bool passed() const { return std::chrono::steady_clock::now() >= end_ || (outer_ && outer_->passed()); }

 private:
  std::chrono::steady_clock::time_point end_;
  const TimeLimit* outer_;
};
/// Has a limit of this thread passed?
bool time_is_over();

/// What a thread works for, and under which limit.
struct Duty {
  const Job* job = nullptr;  ///< null: the command's own
  const TimeLimit* limit = nullptr;
  bool background = false;  ///< for another thread, which shows how far all is
};
/// Of this thread.
Duty& duty();

}  // namespace trainyard
