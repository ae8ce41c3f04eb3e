#include "sim/process/parallel.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "sim/error.hpp"

namespace trainyard {

BackgroundCall::BackgroundCall(std::function<std::string()> work) {
  job_.caller_handles_signals = true;
  job_.progress = [this](const std::string& line) {
    const std::lock_guard lock(mutex_);
    progress_.push_back(line);
  };
  answer_ = std::async(std::launch::async, [this, work = std::move(work)] {
    const JobScope scope(job_);
    return work();
  });
}

std::vector<std::string> BackgroundCall::take_progress() {
  const std::lock_guard lock(mutex_);
  return std::exchange(progress_, {});
}

namespace {

thread_local std::function<void()> g_waiting_work;

/// Hands out numbers to threads one after the other, and collects them when their work has ended.
class Numbers {
 public:
  Numbers(std::size_t count, const std::function<void(std::size_t)>& work)
      : count_(count), work_(work), errors_(count) {}

  void work_until_none_is_left() {
    for (;;) {
      const std::size_t i = next_.fetch_add(1);
      if (i >= count_ || is_interrupted()) break;
      bool is_complete = true;
      try {
        work_(i);
      } catch (const Interruption&) {
        is_complete = false;
      } catch (...) {
        errors_[i] = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      if (is_complete) ended_.push_back(i);
      changed_.notify_one();
    }
    const std::lock_guard lock(mutex_);
    --at_work_;
    changed_.notify_one();
  }

  void begin(std::size_t threads) { at_work_ = threads; }
  /// A thread that could not be started does not count.
  void leave_thread_out() {
    const std::lock_guard lock(mutex_);
    --at_work_;
  }
  /// No thread takes a number after this.
  void leave_rest() { next_ = count_; }
  bool failed(std::size_t i) const { return errors_[i] != nullptr; }

  /// Numbers that have ended since the last call; none: all threads have ended.
  std::vector<std::size_t> wait() {
    std::unique_lock lock(mutex_);
    const auto something = [this] { return !ended_.empty() || at_work_ == 0; };
    while (!changed_.wait_for(lock, std::chrono::milliseconds(500), something)) {
      lock.unlock();
      if (const std::function<void()> work = g_waiting_work) work();  // the function may replace itself
      lock.lock();
    }
    return std::exchange(ended_, {});
  }

  void rethrow_first() const {
    for (const std::exception_ptr& error : errors_)
      if (error) std::rethrow_exception(error);
  }

 private:
  std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::vector<std::exception_ptr> errors_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> ended_;
  std::size_t at_work_ = 0;
};

}  // namespace

void run_parallel(std::size_t count, int jobs, const std::function<void(std::size_t)>& work,
                  const std::function<void(std::size_t)>& done) {
  if (count == 1) {
    if (is_interrupted()) return;
    try {
      work(0);
    } catch (const Interruption&) {
      return;
    }
    if (done) done(0);
    return;
  }
  Numbers numbers(count, work);
  const std::size_t threads = std::min(count, static_cast<std::size_t>(std::max(1, jobs)));
  numbers.begin(threads);
  std::vector<std::jthread> pool;
  struct Rest {
    Numbers& numbers;
    ~Rest() { numbers.leave_rest(); }
  };
  const Rest rest{numbers};  // stops the other threads if `done` throws
  for (std::size_t i = 0; i < threads; ++i) {
    try {
      pool.emplace_back([&numbers, parent_job = thread_job()] {
        thread_job() = {parent_job.job, parent_job.limit, true};
        numbers.work_until_none_is_left();
      });
    } catch (const std::system_error& e) {
      if (pool.empty())
        throw MachineLimit(fmt::format("cannot start a thread: {} (see ulimit -u)", e.code().message()));
      numbers.leave_thread_out();
    }
  }
  for (;;) {
    const std::vector<std::size_t> ended = numbers.wait();
    if (ended.empty()) break;
    for (const std::size_t i : ended)
      if (done && !numbers.failed(i)) done(i);
  }
  numbers.rethrow_first();
}

void do_while_waiting(std::function<void()> work) { g_waiting_work = std::move(work); }

}  // namespace trainyard
