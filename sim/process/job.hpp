#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

namespace trainyard {

/// The work was not completed, because `is_interrupted()` became true. Exit code 3.
struct Interruption : std::runtime_error {
  Interruption() : std::runtime_error("interrupted") {}
};

/// Returns the number of processors that this process may use.
int processors();

/// Makes SIGINT and SIGTERM end the process in an orderly way: `is_interrupted()` returns true after one of them. The
/// process dies of the signal once a second has passed and it has used a second of processor time. It dies at once of a
/// second signal that comes at least 0.2 s after the first one. Does nothing in a job whose caller handles signals.
void watch_interrupts();

/// Returns true if a signal has come, this thread's job was stopped, or its time limit has passed. Work then ends as
/// soon as it can.
bool is_interrupted();
/// Throws Interruption if `is_interrupted()`.
void end_if_interrupted();

/// Work for which a caller waits. It can be stopped without the rest of the process.
struct Job {
  std::atomic<bool> stopped = false;
  /// The working thread calls this function with one line of progress at a time. Empty: nobody is informed.
  std::function<void(const std::string&)> progress = {};
  bool caller_handles_signals = false;  ///< `watch_interrupts` then does nothing
};

/// While it lives, this thread and the threads that it starts by `in_parallel` work for the job.
class JobScope {
 public:
  explicit JobScope(const Job&);
  ~JobScope();
  JobScope(const JobScope&) = delete;
  JobScope& operator=(const JobScope&) = delete;

 private:
  const Job* outer_;
};

/// A limit on the wall time of this thread and of the threads that it starts by `in_parallel`: once that much time has
/// passed, `is_interrupted()` is true in them. The limit holds while this object lives.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  bool has_passed() const { return std::chrono::steady_clock::now() >= end_ || (outer_ && outer_->has_passed()); }

 private:
  std::chrono::steady_clock::time_point end_;
  const TimeLimit* outer_;
};
/// Returns true if a time limit of this thread has passed.
bool time_is_over();

/// The job that a thread works for, and its time limit.
struct ThreadJob {
  const Job* job = nullptr;  ///< null: the command itself
  const TimeLimit* limit = nullptr;
  bool background = false;  ///< works for another thread, which shows the progress of all
};
/// Returns the duty of this thread.
ThreadJob& thread_job();

}  // namespace trainyard
