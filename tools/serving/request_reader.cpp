#include "tools/serving/request_reader.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/process/output.hpp"

namespace trainyard {
namespace {

/// Compares two secrets in a time that does not depend on how many characters are equal.
bool equal_secrets(const std::string& a, const std::string& b) {
  unsigned differing = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    differing |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differing == 0;
}

constexpr std::string_view kEnd = "\r\n\r\n";  // end of the head

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// The values of the headers of that name.
std::vector<std::string_view> headers_of(std::string_view head, std::string_view name) {
  std::vector<std::string_view> values;
  for (std::size_t line_end = head.find("\r\n"); line_end != std::string_view::npos;) {
    const std::size_t next = head.find("\r\n", line_end + 2);
    const std::string_view line =
        head.substr(line_end + 2, next == std::string_view::npos ? next : next - line_end - 2);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && same_word(trimmed(line.substr(0, colon)), name))
      values.push_back(trimmed(line.substr(colon + 1)));
    line_end = next;
  }
  return values;
}

/// The missing part of a request, or its refusal.
struct Missing {
  std::string refusal;    ///< HTTP status, such as "413 …"; empty: the request is not refused
  std::size_t bytes = 1;  ///< number of missing bytes, at least 1 if not known; 0: the request is complete
};

Missing missing_of(const std::string& text, const RequestReader::Limits& limits) {
  const std::size_t end = text.find(kEnd);
  if (std::min(end, text.size()) > limits.head) return {"431 Request Header Fields Too Large"};
  if (end == std::string::npos) return {};
  const std::string_view head = std::string_view(text).substr(0, end);
  for (const char* name : {"Host", "Origin", "Sec-Fetch-Site", "Content-Type", "Content-Length", "X-Trainyard-Token"})
    if (headers_of(head, name).size() > 1) return {fmt::format("400 Bad Request: {} twice", name)};
  if (!headers_of(head, "Transfer-Encoding").empty()) return {"411 Length Required"};
  const std::vector<std::string_view> lengths = headers_of(head, "Content-Length");
  std::size_t body = 0;
  if (!lengths.empty()) {
    const std::string_view length = lengths.front();
    const auto read = std::from_chars(length.data(), length.data() + length.size(), body);
    if (length.empty() || read.ptr != length.data() + length.size() ||
        (read.ec != std::errc() && read.ec != std::errc::result_out_of_range))
      return {"400 Bad Request: a Content-Length that is no number"};
    if (read.ec != std::errc() || body > limits.body) return {"413 Payload Too Large"};
  }
  const std::size_t size = end + kEnd.size() + body;
  return {"", size > text.size() ? size - text.size() : 0};
}

void refuse_with(int socket, const std::string& status) {
  const std::string text =
      fmt::format("HTTP/1.1 {}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{}\n",
                  status, status.size() + 1, status);
  // The text fits into the empty send buffer of the socket. If it does not, there is no answer.
  if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) ::shutdown(socket, SHUT_WR);
}

std::uint32_t address_of(int socket) {
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET) return 0;
  return peer.sin_addr.s_addr;
}

}  // namespace

std::optional<Refusal> refusal_of(const RequestHead& head, int port, const std::string& token) {
  const std::string numbered = fmt::format("127.0.0.1:{}", port), named = fmt::format("localhost:{}", port);
  if (head.host != numbered && head.host != named) return Refusal{403, "another host was meant"};
  if (!head.origin.empty() && head.origin != "http://" + head.host) return Refusal{403, "asked by another origin"};
  const bool typed = head.fetch_site == "none" && head.method == "GET";
  if (!head.fetch_site.empty() && head.fetch_site != "same-origin" && !typed)
    return Refusal{403, "asked by another site"};
  if (head.method == "GET" && head.path == "/") {
    if (equal_secrets(head.token, token)) return std::nullopt;
    return Refusal{403, "the address that `trainyard serve` has printed is expected, with its token"};
  }
  if (head.path != "/ask") return Refusal{404, "there are / and /ask"};
  if (head.method != "POST") return Refusal{405, "/ask takes POST"};
  if (head.content_type != "application/json") return Refusal{415, "application/json expected"};
  if (!equal_secrets(head.token, token)) return Refusal{403, "this page is of another start: load it again"};
  return std::nullopt;
}

std::string random_token() {
  constexpr std::size_t bytes = 16;
  return random_digits(bytes);
}

RequestReader::RequestReader(const Limits& limits, RequestHandler handle)
    : limits_(limits), handle_(std::move(handle)), wake_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_event_ < 0) throw UserError(fmt::format("cannot serve: {}", std::strerror(errno)));
  thread_ = std::thread([this] { run(); });
}

RequestReader::~RequestReader() {
  is_over_ = true;
  wake();
  thread_.join();
  for (const std::list<Connection>* connections : {&taken_, &open_})
    for (const Connection& connection : *connections) ::close(connection.socket);
  ::close(wake_event_);
}

void RequestReader::take(int socket) {
  {
    const std::lock_guard lock(taken_mutex_);
    taken_.push_back({socket, address_of(socket), Clock::now() + limits_.time, {}});
  }
  wake();
}

void RequestReader::wake() const {
  const std::uint64_t one = 1;
  while (::write(wake_event_, &one, sizeof one) < 0 && errno == EINTR) continue;
}

/// Reads the bytes that have arrived. Returns false if the reader no longer has the connection.
bool RequestReader::read_some(Connection& connection) {
  std::array<char, 16384> buffer{};
  const ssize_t n = ::recv(connection.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) {
    ::close(connection.socket);
    return false;
  }
  if (connection.refused) return true;
  connection.text.append(buffer.data(), static_cast<std::size_t>(n));
  const Missing missing = missing_of(connection.text, limits_);
  if (!missing.refusal.empty()) {
    refuse_with(connection.socket, missing.refusal);
    connection.refused = true;
    connection.text = std::string();
  } else if (missing.bytes == 0) {
    handle_(connection.socket, std::move(connection.text));
    return false;
  }
  return true;
}

/// Closes the oldest connections above the limits.
void RequestReader::close_too_many() {
  std::map<std::uint32_t, std::size_t> count_by_address;
  std::size_t all = 0;
  for (auto position = open_.end(); position != open_.begin();) {
    --position;
    if (++count_by_address[position->address] <= limits_.per_address && ++all <= limits_.connections) continue;
    ::close(position->socket);
    position = open_.erase(position);
  }
}

void RequestReader::run() {
  while (!is_over_) {
    {
      const std::lock_guard lock(taken_mutex_);
      open_.splice(open_.end(), taken_);
    }
    close_too_many();
    const Clock::time_point now = Clock::now();
    for (; !open_.empty() && open_.front().end <= now; open_.pop_front()) {
      if (!open_.front().refused) refuse_with(open_.front().socket, "408 Request Timeout");
      ::close(open_.front().socket);
    }
    std::vector<pollfd> polls{{wake_event_, POLLIN, 0}};
    for (const Connection& connection : open_) polls.push_back({connection.socket, POLLIN, 0});
    constexpr std::int64_t most = 60000;  // ms
    int wait = -1;
    if (!open_.empty())
      wait = static_cast<int>(
          std::min<std::int64_t>(most, std::chrono::ceil<std::chrono::milliseconds>(open_.front().end - now).count()));
    if (::poll(polls.data(), polls.size(), wait) <= 0) continue;
    std::uint64_t wakes = 0;
    if (polls.front().revents != 0 && ::read(wake_event_, &wakes, sizeof wakes) < 0 && errno != EAGAIN &&
        errno != EINTR)
      break;
    std::size_t i = 1;
    for (auto position = open_.begin(); position != open_.end(); ++i)
      position = polls[i].revents != 0 && !read_some(*position) ? open_.erase(position) : std::next(position);
  }
}

}  // namespace trainyard
