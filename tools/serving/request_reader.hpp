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

/// Takes connections until their request has come whole. One thread reads them all, so that none that is slow, or never
/// ends, keeps another waiting.
class RequestReader {
 public:
  struct Limits {
    // Whose request is not whole; of more, the oldest is closed. One address cannot push out another's.
    std::size_t connections = 256, of_address = 64;
    std::size_t head = 16 * 1024, body = kMostOfRequest;  ///< bytes
    std::chrono::milliseconds time{5000};                 ///< from the connection to the end of the request
  };
  /// Gets the socket, which is its own from then on, and the request. Called by the reader's thread.
  using Whole = std::function<void(int socket, std::string request)>;

  RequestReader(const Limits&, Whole);
  ~RequestReader();  ///< closes those whose request is not whole
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;
  /// From any thread.
  void take(int socket);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int socket;
    std::uint32_t address;  ///< IPv4, of its other end; 0: it has none
    Clock::time_point end;
    std::string text;
    bool refused = false;  ///< what comes is thrown away, until its other end has seen the answer
  };
  Limits limits_;
  Whole whole_;
  std::mutex taking_;
  std::list<Connection> taken_, open_;
  int woken_ = -1;
  std::atomic<bool> over_ = false;
  std::thread thread_;

  void run();
  void wake() const;
  void close_too_many();
  bool read_some(Connection&);
};

}  // namespace trainyard
