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

/// A text that a thread of its own works out, for somebody who has other things to look after meanwhile: a page that may
/// go, a key that may be pressed.
class BackgroundCall {
 public:
  explicit BackgroundCall(std::function<std::string()> work);
  /// Stops the work if it goes on, and waits for its end.
  ~BackgroundCall() { job_.stopped = true; }
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  /// True once it is over. Waits that long at most.
  bool over_within(std::chrono::milliseconds time) { return answer_.wait_for(time) == std::future_status::ready; }
  /// How far it is, by the lines that came since the last time.
  std::vector<std::string> take_progress();
  /// Waits for it, once. Throws what the work throws.
  std::string answer() { return answer_.get(); }

 private:
  std::mutex mutex_;
  std::vector<std::string> progress_;
  Job job_;
  std::future<std::string> answer_;  ///< waits as it ends
};

}  // namespace trainyard
