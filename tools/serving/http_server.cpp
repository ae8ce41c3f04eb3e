#include "tools/serving/http_server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>

// Debian builds the library with these macros, and they change the layout of its classes.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_ZLIB_SUPPORT
#define CPPHTTPLIB_BROTLI_SUPPORT
#include <httplib.h>
// <resolv.h> defines a macro with the name of a parameter in Eigen, which a unity file may include next.
#undef _res

#include "models/hardware/kernel_shapes.hpp"
#include "sim/error.hpp"
#include "sim/process/parallel.hpp"
#include "tools/serving/request_reader.hpp"

namespace trainyard {
namespace {

constexpr int kRequestThreads = 32;  // most of these threads wait for answers
constexpr int kLookMs = 50;          // interval at which a thread checks whether the page is still open, ms

/// Limits the number of answers that are computed at the same time.
class Turns {
 public:
  explicit Turns(int most) : free_(most) {}
  /// Waits for a turn, then runs the work. Throws Interruption.
  std::string take(const std::function<std::string()>& work) {
    while (!free_.try_acquire_for(std::chrono::milliseconds(kLookMs))) end_if_interrupted();
    struct Release {
      std::counting_semaphore<>& free;
      ~Release() { free.release(); }
    } release{free_};
    return work();
  }

 private:
  std::counting_semaphore<> free_;
};

/// Waits for the answer while the page is open, and sends it. Returns false if the page is closed.
bool send_answer(BackgroundCall& call, int seconds, httplib::DataSink& sink) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!call.over_within(std::chrono::milliseconds(kLookMs))) {
    if (!sink.is_writable() || is_interrupted()) return false;
    if (std::chrono::steady_clock::now() < end) continue;
    const std::string late = fmt::format(R"({{"error": "no answer after {} s"}})", seconds);
    sink.write(late.data(), late.size());
    sink.done();
    return true;
  }
  try {
    const std::string text = call.answer();
    sink.write(text.data(), text.size());
    sink.done();
    return true;
  } catch (const Interruption&) {
    return false;
  }
}

RequestHead head_of(const httplib::Request& request) {
  return {request.method,
          request.path,
          request.get_header_value("Host"),
          request.get_header_value("Origin"),
          request.get_header_value("Sec-Fetch-Site"),
          request.get_header_value("Content-Type"),
          request.method == "GET" ? request.get_param_value("token") : request.get_header_value("X-Trainyard-Token")};
}

/// A completely received request, and its connection.
class ReceivedRequest : public httplib::Stream {
 public:
  ReceivedRequest(int socket, std::string text) : socket_(socket), text_(std::move(text)) {}
  ~ReceivedRequest() override {
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
  }
  ReceivedRequest(const ReceivedRequest&) = delete;
  ReceivedRequest& operator=(const ReceivedRequest&) = delete;

  bool is_readable() const override { return read_ < text_.size(); }
  bool is_writable() const override {
    char byte = 0;
    const ssize_t n = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }
  ssize_t read(char* to, size_t size) override {
    const std::size_t n = text_.copy(to, size, read_);
    read_ += n;
    return static_cast<ssize_t>(n);
  }
  /// Sends all bytes. Returns -1 if the receiver is closed or too slow.
  ssize_t write(const char* from, size_t size) override {
    for (std::size_t sent = 0; sent < size;) {
      const ssize_t n = ::send(socket_, from + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n > 0 || (n < 0 && errno == EINTR)) continue;
      pollfd poll{socket_, POLLOUT, 0};
      if (n == 0 || errno != EAGAIN || is_interrupted() || is_late()) return -1;
      ::poll(&poll, 1, kLookMs);
    }
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  int socket_;
  std::string text_;
  std::size_t read_ = 0;
  std::optional<std::chrono::steady_clock::time_point> end_;

  /// Returns true if the time for all writes is over. This time begins at the first wait.
  bool is_late() {
    constexpr std::chrono::seconds most{10};
    const auto now = std::chrono::steady_clock::now();
    if (!end_) end_ = now + most;
    return now >= *end_;
  }
};

/// Runs each task at once, on the listening thread. A task only passes a connection on.
class ImmediateTasks : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override {}
};

/// A server whose threads answer complete requests. Incomplete requests occupy no thread.
class PageServer : public httplib::Server {
 public:
  PageServer()
      : threads_(kRequestThreads), reader_({}, [this](int socket, std::string request) {
          threads_.enqueue([this, socket, text = std::move(request)] { answer(socket, text); });
        }) {}
  ~PageServer() override { threads_.shutdown(); }

 private:
  httplib::ThreadPool threads_;
  RequestReader reader_;  // declared last, so that it is destroyed before the threads

  bool process_and_close_socket(socket_t socket) override {
    reader_.take(socket);
    return true;
  }
  void answer(int socket, const std::string& text) {
    ReceivedRequest request(socket, text);
    bool closed = false;
    process_request(request, true, closed, nullptr);
  }
};

void set_limits(httplib::Server& server) {
  server.new_task_queue = [] { return new ImmediateTasks; };
  server.set_payload_max_length(kMostOfRequest);
  server.set_keep_alive_max_count(1);
  server.set_tcp_nodelay(true);
  // The library's default without SO_REUSEPORT, so that a port belongs to one program.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  // Forbids the page to load anything from elsewhere, and other pages to show it in a frame.
  server.set_default_headers(
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: "
        "blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
       {"X-Content-Type-Options", "nosniff"},
       {"Referrer-Policy", "no-referrer"},
       {"Cross-Origin-Opener-Policy", "same-origin"},
       {"Cross-Origin-Resource-Policy", "same-origin"},
       {"Cache-Control", "no-store"}});
}

/// Blocks SIGINT and SIGTERM in this thread, and in the threads that it starts, until it is destroyed. A signal to the
/// process is then taken by the thread that waits for it, and by no other.
class EndSignals {
 public:
  EndSignals() {
    sigset_t ends;
    ::sigemptyset(&ends);
    ::sigaddset(&ends, SIGINT);
    ::sigaddset(&ends, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &ends, &before_);
  }
  ~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  void wait() {
    while (!is_interrupted()) ::ppoll(nullptr, 0, nullptr, &before_);
  }

 private:
  sigset_t before_{};
};

}  // namespace

void serve_page(const ServedPage& page, const std::function<std::string(const std::string&)>& answer,
                const std::function<void(int)>& ready) {
  EndSignals signals;  // before the server, whose threads must not take a signal
  Turns turns(processors());
  PageServer server;
  set_limits(server);
  int port = page.port;
  server.set_pre_routing_handler([&](const httplib::Request& request, httplib::Response& response) {
    const std::optional<Refusal> refusal = refusal_of(head_of(request), port, page.token);
    if (!refusal) return httplib::Server::HandlerResponse::Unhandled;
    response.status = refusal->status;
    response.set_content(refusal->words + "\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(page.html, "text/html; charset=utf-8");
  });
  server.Post("/ask", [&](const httplib::Request& request, httplib::Response& response) {
    const auto call = std::make_shared<BackgroundCall>([&, body = request.body] {
      return turns.take([&] {
        const ShapeScope shapes;
        return answer(body);
      });
    });
    response.set_chunked_content_provider("application/json", [call, &page](std::size_t, httplib::DataSink& sink) {
      return send_answer(*call, page.seconds_for_answer, sink);
    });
  });
  if (page.port > 0 ? !server.bind_to_port("127.0.0.1", page.port) : (port = server.bind_to_any_port("127.0.0.1")) <= 0)
    throw UserError(fmt::format("--port {}: another program uses this port (0 takes any free port)", page.port));
  std::thread listening([&server] { server.listen_after_bind(); });
  ready(port);
  signals.wait();
  server.stop();
  listening.join();
}

}  // namespace trainyard
