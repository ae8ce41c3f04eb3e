#pragma once
#include <sys/types.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace trainyard {

/// A process that forks a worker for each question, for programs that have threads and so must not fork themselves: it has
/// one thread, and is forked before there are others. At most `jobs` workers run at a time; further questions wait.
class ForkServer {
 public:
  using Work = std::function<std::string(const std::string& question)>;
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
    std::optional<std::string> answer() const;

   private:
    int channel_;
    bool over_ = false;
    std::string text_;  ///< its length in 8 bytes, and the answer
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
