#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>

namespace trainyard::test {

/// The text that `work` gives in a process of its own, for what may abort or can be there once in a process. Throws
/// std::runtime_error with what it throws, or where it dies.
inline std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  std::fflush(nullptr);  // else the child would write our buffers too
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text;
    try {
      text = "=" + work();
    } catch (const std::exception& e) {
      text = std::string("!") + e.what();
    }
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = ::write(ends[1], text.data() + at, text.size() - at);
      if (n <= 0) ::_exit(1);
      at += static_cast<std::size_t>(n);
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
