#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sim/process/parallel.hpp"
#include "tools/verbs/serving/served_verbs.hpp"

namespace trainyard {

/// A server of the Model Context Protocol, revision 2025-06-18: verbs that answer programs are tools. Messages are
/// JSON-RPC 2.0, one a line. A call runs on a thread of its own, one at a time in the order of their arrival; meanwhile
/// pings are answered, and a call can be cancelled. Errors of a verb are results with `isError`.
class McpServer {
 public:
  /// `send` receives each message to the client, one line without its end.
  explicit McpServer(std::function<void(const std::string&)> send) : send_(std::move(send)) {}

  /// Takes a message of the client. Throws nothing for bad input: the client gets an error.
  void take(const std::string& line);
  /// Returns true if a call runs or waits.
  bool is_busy() const { return running_ != nullptr || !waiting_.empty(); }
  /// Waits for the running call, for at most `time`. Sends its progress, and its result if it is over.
  void advance(std::chrono::milliseconds time);

 private:
  struct Call {
    ServedJson id, progress_token;  ///< progress_token null: the client wants no progress
    std::function<std::string()> work;
    int progress = 0;  ///< number of lines of progress that were sent
  };

  std::function<void(const std::string&)> send_;
  std::deque<Call> waiting_;
  std::optional<Call> call_;  ///< the running call
  std::unique_ptr<BackgroundCall> running_;

  void answer(const ServedJson& id, const ServedJson& result);
  void refuse(const ServedJson& id, int code, const std::string& message);
  void take_request(const ServedJson& message);
  void take_notification(const ServedJson& message);
  void take_call(const ServedJson& id, const ServedJson& params);
  void send_progress();
};

/// Lines of a file descriptor, as they come.
class InputLines {
 public:
  explicit InputLines(int descriptor) : descriptor_(descriptor) {}
  /// Waits for the next line, for at most `time`; no limit if it is negative. No value: there is none yet, or the input
  /// has ended.
  std::optional<std::string> next(std::chrono::milliseconds time);
  /// Returns true if the input has ended and all its lines were returned.
  bool is_over() const { return ended_ && text_.empty(); }

 private:
  int descriptor_;
  bool ended_ = false;
  std::string text_;
};

}  // namespace trainyard
