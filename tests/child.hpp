#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>

namespace trainyard::test {

/// Runs `work` in a child process and returns its text. For code that may abort, or that can run only once in a
/// process. Throws std::runtime_error with the text of the child's exception, or if the child dies.
inline std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  std::fflush(nullptr);  // otherwise the child would also write the parent's buffers
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text;
    try {
      text = "=" + work();
    } catch (const std::exception& e) {
      text = std::string("!") + e.what();
    }
    for (std::size_t written = 0; written < text.size();) {
      const ssize_t n = ::write(ends[1], text.data() + written, text.size() - written);
      if (n <= 0) ::_exit(1);
      written += static_cast<std::size_t>(n);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[65536];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0 || text.empty()) throw std::runtime_error("the child died of status " + std::to_string(status));
  if (text.front() == '!') throw std::runtime_error(text.substr(1));
  return text.substr(1);
}

}  // namespace trainyard::test
