#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace trainyard {

/// The parts of a request that show who sends it; "" if the header is absent. A request for the page has the token in
/// its address, which no other user of this machine knows. A question has it in a header, which no other page can set.
struct RequestHead {
  std::string method, path, host, origin, fetch_site, content_type, token;
};

/// The reason for refusing a request, with its HTTP status.
struct Refusal {
  int status = 403;
  std::string words;
};

/// Refuses requests that do not come from the page itself. No value: the request is accepted. A request through a name
/// that resolves to the loopback (DNS rebinding) has another Host; a form or script of another page has another Origin
/// and no token. `token`: the token of this start of the server.
std::optional<Refusal> refusal_of(const RequestHead&, int port, const std::string& token);

/// 128 random bits as hexadecimal digits. Throws InternalError.
std::string random_token();

/// The largest body of a request, bytes.
constexpr std::size_t kMostOfRequest = 64 * 1024;

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
