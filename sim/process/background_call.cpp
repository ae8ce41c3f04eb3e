#include "sim/process/background_call.hpp"

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

}  // namespace trainyard
