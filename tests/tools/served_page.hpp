#pragma once
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/json_text.hpp"
#include "tests/tools/html_pages.hpp"

namespace trainyard::test {

/// Runs `trainyard serve` with `argument` (a scenario or --task=N) on a free port of the loopback, and
/// sends requests to it.
class ServedProcess {
 public:
  explicit ServedProcess(const TemporaryFolder& folder, const char* argument = "small.yaml") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      if (::chdir(folder.path().c_str()) == 0) ::execl(TRAINYARD_BINARY, TRAINYARD_BINARY, "serve", argument, nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) url += c;
    ::close(ends[0]);
    REQUIRE(url.starts_with("http://127.0.0.1:"));
    port = std::stoi(url.substr(url.rfind(':') + 1));
    const std::size_t query = url.find("/?token=");
    REQUIRE(query != std::string::npos);
    token = url.substr(query + 8);
    REQUIRE(token.size() == 32);
  }
  ~ServedProcess() {
    if (pid_ > 0) stop();
  }
  ServedProcess(const ServedProcess&) = delete;
  ServedProcess& operator=(const ServedProcess&) = delete;

  /// Ends the server as Ctrl-C does. Returns its exit code.
  int stop() {
    ::kill(pid_, SIGINT);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid() const { return pid_; }

  /// Sends these bytes and returns the answer. `read` false: closes the connection at once.
  std::string raw(const std::string& request, bool read = true) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string answer;
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::send(socket, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
      std::array<char, 65536> buffer{};
      for (ssize_t n = 0; read && (n = ::recv(socket, buffer.data(), buffer.size(), 0)) > 0;)
        answer.append(buffer.data(), static_cast<std::size_t>(n));
    }
    ::close(socket);
    return answer;
  }
  std::string get(const std::string& path, const std::string& headers = "") const {
    return raw("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n" + headers + "\r\n");
  }
  std::string page(const std::string& headers = "") const { return get("/?token=" + token, headers); }
  std::string post(const std::string& body, const std::string& headers = "", bool read = true) const {
    return raw("POST /ask HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
                   "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
                   headers + "\r\n" + body,
               read);
  }
  std::string with_token() const { return "X-Trainyard-Token: " + token + "\r\n"; }
  /// The JSON of the answer; null if the server refuses.
  nlohmann::json ask(const std::string& set, const std::string& want = "answer",
                     const std::string& scenario = "small") const {
    const std::string answer =
        post(R"({"scenario":")" + scenario + R"(","set":)" + set + R"(,"want":")" + want + "\"}", with_token());
    const std::size_t body = answer.find("\r\n\r\n");
    if (!answer.starts_with("HTTP/1.1 200") || body == std::string::npos) return nullptr;
    std::string text;
    // The body has chunks: a line with the length of the chunk, then its bytes.
    for (std::size_t chunk = body + 4; chunk < answer.size();) {
      const std::size_t size = std::stoul(answer.substr(chunk), nullptr, 16), from = answer.find("\r\n", chunk) + 2;
      if (size == 0) break;
      text += answer.substr(from, size);
      chunk = from + size + 2;
    }
    try {
      return parse_json(text);
    } catch (const nlohmann::json::parse_error&) {
      return nlohmann::json(nlohmann::json::value_t::discarded);
    }
  }

  std::string url, token;
  int port = 0;

 private:
  pid_t pid_ = -1;
};

}  // namespace trainyard::test
