#pragma once
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <string>
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

}  // namespace trainyard
