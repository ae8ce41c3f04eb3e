#pragma once
#include <sys/types.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

/// A process that forks a worker for each question, for programs that have threads and so must not fork themselves: it has
/// one thread, and is forked before there are others. At most `jobs` workers run at a time; further questions wait.
class ForkServer {
 public:
  using Note = std::function<void(const std::string&)>;
  /// What it notes on the way, there and in what it forks, comes to who asks before the answer.
  using Work = std::function<std::string(const std::string& question, const Note& note)>;
  /// `work` answers in a worker of its own, in which it may fork; it should not throw. Throws InternalError.
  ForkServer(Work work, int jobs);
  ~ForkServer();  ///< ends the process, and with it all workers
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// A question on its way; its worker, and what that has forked, is killed when this ends first.
  class Job {
   public:
    explicit Job(int channel) : channel_(channel) {}
    Job(Job&& other) noexcept;
    Job& operator=(Job&&) = delete;
    ~Job();
    /// True once it is over: answered, or the worker has died. Waits that long at most.
    bool over_within(int milliseconds);
    /// After that; nothing where the worker died.
    std::optional<std::string> answer() const { return answer_; }
    std::vector<std::string> take_notes() {
      return std::exchange(notes_, {});
    }  ///< those that came since the last time

   private:
    int channel_;
    bool over_ = false;
    std::string text_;  ///< what has come and is not whole
    std::vector<std::string> notes_;
    std::optional<std::string> answer_;
    void take_whole();
  };
  /// From any thread. Throws InternalError where the process is gone.
  Job ask(const std::string& question);
  pid_t process() const { return process_; }

 private:
  std::mutex one_at_a_time_;
  int control_ = -1;
  pid_t process_ = -1;
};

}  // namespace trainyard
