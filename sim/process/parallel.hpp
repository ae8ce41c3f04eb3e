#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/process/job.hpp"

namespace trainyard {

/// Computes a text on a thread of its own, while the caller looks after other things: a page that may be closed, a key
/// that may be pressed.
class BackgroundCall {
 public:
  explicit BackgroundCall(std::function<std::string()> work);
  /// Stops the work if it is still running, and waits for its end.
  ~BackgroundCall() { job_.stopped = true; }
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  /// Returns true once the work is over. Waits for at most `time`.
  bool over_within(std::chrono::milliseconds time) { return answer_.wait_for(time) == std::future_status::ready; }
  /// The progress lines that came since the last call.
  std::vector<std::string> take_progress();
  /// Waits for the text. Call it only once. Throws what the work throws.
  std::string answer() { return answer_.get(); }

 private:
  std::mutex mutex_;
  std::vector<std::string> progress_;
  Job job_;
  std::future<std::string> answer_;  ///< its destructor waits
};

/// Runs `work` for the numbers below `count` on at most `jobs` threads, and calls `done` on this thread as each ends.
/// After all have ended, throws the failure with the lowest number. Once `is_interrupted()`, no further number begins,
/// and a number whose work throws Interruption does not count as done. A single number runs on this thread.
void run_parallel(std::size_t count, int jobs, const std::function<void(std::size_t)>& work,
                  const std::function<void(std::size_t)>& done = {});

/// Does work that returns something in parallel. Returns the results by number; no value: that number was not done.
template <class Work, class Done>
auto in_parallel(std::size_t count, int jobs, const Work& work, const Done& done) {
  std::vector<std::optional<std::invoke_result_t<const Work&, std::size_t>>> results(count);
  run_parallel(
      count, jobs, [&](std::size_t i) { results[i] = work(i); }, [&](std::size_t i) { done(i, *results[i]); });
  return results;
}
template <class Work>
auto in_parallel(std::size_t count, int jobs, const Work& work) {
  return in_parallel(count, jobs, work, [](std::size_t, const auto&) {});
}
/// Does work in parallel and returns all results or none: throws Interruption if one is missing.
template <class Work, class Done>
auto all_in_parallel(std::size_t count, int jobs, const Work& work, const Done& done) {
  std::vector<std::invoke_result_t<const Work&, std::size_t>> results;
  for (auto& result : in_parallel(count, jobs, work, done)) {
    if (!result) throw Interruption();
    results.push_back(std::move(*result));
  }
  return results;
}
template <class Work>
auto all_in_parallel(std::size_t count, int jobs, const Work& work) {
  return all_in_parallel(count, jobs, work, [](std::size_t, const auto&) {});
}

/// Sets a function that this thread calls every half second while it waits for others, for example to show progress;
/// empty: none.
void do_while_waiting(std::function<void()>);

}  // namespace trainyard
