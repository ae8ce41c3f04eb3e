#include "tools/serving/http_server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <thread>

// Debian builds the library so, and it changes what is in its classes.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_ZLIB_SUPPORT
#define CPPHTTPLIB_BROTLI_SUPPORT
#include <httplib.h>

#include "sim/error.hpp"
#include "sim/process/child.hpp"
#include "tools/serving/request_checks.hpp"

namespace trainyard {
namespace {

constexpr int kRequestThreads = 32;  // most of them wait for workers
constexpr int kLookMs = 50;          // between looks whether the page is still there

/// Waits for the answer as long as the page does.
bool send_answer(ForkServer::Job& job, int seconds, httplib::DataSink& sink) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!job.over_within(kLookMs)) {
    if (!sink.is_writable()) return false;
    if (std::chrono::steady_clock::now() < end) continue;
    const std::string late = fmt::format(R"({{"error": "no answer after {} s"}})", seconds);
    sink.write(late.data(), late.size());
    sink.done();
    return true;
  }
  const std::string text = job.answer().value_or(R"({"error": "the simulation died"})");
  sink.write(text.data(), text.size());
  sink.done();
  return true;
}

RequestHead head_of(const httplib::Request& request) {
  return {request.method,
          request.path,
          request.get_header_value("Host"),
          request.get_header_value("Origin"),
          request.get_header_value("Sec-Fetch-Site"),
          request.get_header_value("Content-Type"),
          request.get_header_value("X-Trainyard-Token")};
}

void set_limits(httplib::Server& server) {
  constexpr int read_seconds = 5, write_seconds = 10;
  server.new_task_queue = [] { return new httplib::ThreadPool(kRequestThreads); };
  server.set_payload_max_length(kMostOfRequest);
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(read_seconds);
  server.set_write_timeout(write_seconds);
  server.set_tcp_nodelay(true);
  // As by default, but a port belongs to one program (no SO_REUSEPORT).
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  // The page loads nothing from anywhere, and is in no frame.
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

}  // namespace

void serve_page(const ServedPage& page, ForkServer& workers, const std::function<void(int)>& ready) {
  httplib::Server server;
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
    const auto job = std::make_shared<ForkServer::Job>(workers.ask(request.body));
    response.set_chunked_content_provider("application/json", [job, &page](std::size_t, httplib::DataSink& sink) {
      return send_answer(*job, page.seconds_for_answer, sink);
    });
  });
  if (page.port > 0 ? !server.bind_to_port("127.0.0.1", page.port) : (port = server.bind_to_any_port("127.0.0.1")) <= 0)
    throw UserError(
        fmt::format("--port {}: cannot listen there; another program does (0 takes any that is free)", page.port));
  sigset_t ends, before;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &ends, &before);  // for the threads; they are of this one, while it waits
  std::thread listening([&server] { server.listen_after_bind(); });
  ready(port);
  while (!interrupted()) ::ppoll(nullptr, 0, nullptr, &before);
  server.stop();
  listening.join();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace trainyard
