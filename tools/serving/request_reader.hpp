#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "tools/serving/request_checks.hpp"

namespace trainyard {

/// Keeps connections until their request is complete. One thread reads them all, so that a slow or endless request does
/// not delay another one.
class RequestReader {
 public:
  struct Limits {
    /// Largest numbers of connections with incomplete requests: in all, and from one address. If there are more, the
    /// oldest is closed. The second limit stops one address from displacing the connections of others.
    std::size_t connections = 256, per_address = 64;
    std::size_t head = 16 * 1024, body = kMostOfRequest;  ///< bytes
    std::chrono::milliseconds time{5000};                 ///< from the connection to the end of the request
  };
  /// Takes ownership of the socket, and the complete request. The reader's thread calls it.
  using RequestHandler = std::function<void(int socket, std::string request)>;

  RequestReader(const Limits&, RequestHandler);
  ~RequestReader();  ///< closes the connections with incomplete requests
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;
  /// Takes over a connection. Any thread may call this.
  void take(int socket);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int socket;
    std::uint32_t address;  ///< IPv4 address of the other end; 0: none
    Clock::time_point end;  ///< the request must be complete by then
    std::string text;
    bool refused = false;  ///< true: further bytes are dropped until the other end has closed the connection
  };
  Limits limits_;
  RequestHandler handle_;
  std::mutex taken_mutex_;
  std::list<Connection> taken_, open_;
  int wake_event_ = -1;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;

  void run();
  void wake() const;
  void close_too_many();
  bool read_some(Connection&);
};

}  // namespace trainyard
