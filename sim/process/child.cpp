#include "sim/process/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/error.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

volatile sig_atomic_t g_interrupted = 0;
bool g_is_child = false;
int g_progress = STDERR_FILENO;

enum class Status : char { result = 'R', user = 'U', deadlock = 'D', internal = 'I' };

struct Child {
  std::size_t index = 0;
  pid_t pid = -1;
  int pipe = -1;
  int caught_stderr = -1;
  std::string text;
};

void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(71);
    at += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void run_child(int pipe, int caught_stderr, const std::function<std::string()>& work) {
  g_is_child = true;
  g_progress = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(caught_stderr, STDERR_FILENO);
  std::string text;
  try {
    text = work();
    text.insert(text.begin(), static_cast<char>(Status::result));
  } catch (const Deadlock& e) {
    text = static_cast<char>(Status::deadlock) + std::string(e.what());
  } catch (const UserError& e) {
    text = static_cast<char>(Status::user) + std::string(e.what());
  } catch (const std::exception& e) {
    text = static_cast<char>(Status::internal) + std::string(e.what());
  }
  write_all(pipe, text);
  _exit(0);  // no destructors, no exit handlers: the engine's are those of the parent
}

Child launch(std::size_t index, const std::function<std::string()>& work) {
  int ends[2];
  Child child;
  child.index = index;
  child.caught_stderr = ::memfd_create("stderr", MFD_CLOEXEC);
  if (child.caught_stderr < 0 || ::pipe2(ends, O_CLOEXEC) != 0)
    throw InternalError(fmt::format("cannot start a simulation: {}", std::strerror(errno)));
  std::fflush(nullptr);  // else the child would write our buffers too
  child.pid = ::fork();
  if (child.pid < 0) throw InternalError(fmt::format("cannot start a simulation: {}", std::strerror(errno)));
  if (child.pid == 0) {
    ::close(ends[0]);
    run_child(ends[1], child.caught_stderr, work);
  }
  ::close(ends[1]);
  child.pipe = ends[0];
  return child;
}

std::string tail_of(int fd) {
  char buffer[4096];
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(sizeof buffer));
  const ssize_t n = ::pread(fd, buffer, sizeof buffer, from);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : "";
}

/// The child has closed its pipe: takes its text, or what it failed with.
std::exception_ptr end(Child& child) {
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::close(child.pipe);
  // It wrote to a pipe that nobody reads any more (`… --trace - | head`): end as any command does then.
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) ::raise(SIGPIPE);
  std::exception_ptr error;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || child.text.empty()) {
    const std::string why = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                                : fmt::format("exit status {}", WEXITSTATUS(status));
    std::string said = tail_of(child.caught_stderr);
    std::replace(said.begin(), said.end(), '\n', ' ');
    error = std::make_exception_ptr(InternalError(fmt::format("the simulation died ({}) {}", why, said)));
  } else {
    const auto kind = static_cast<Status>(child.text.front());
    child.text.erase(0, 1);
    if (kind == Status::deadlock) error = std::make_exception_ptr(Deadlock(child.text));
    if (kind == Status::user) error = std::make_exception_ptr(UserError(child.text));
    if (kind == Status::internal) error = std::make_exception_ptr(InternalError(child.text));
  }
  ::close(child.caught_stderr);
  return error;
}

/// Reads what has come; true when the child has closed its end.
bool read_some(Child& child) {
  char buffer[65536];
  const ssize_t n = ::read(child.pipe, buffer, sizeof buffer);
  if (n < 0) return errno != EINTR;
  child.text.append(buffer, static_cast<std::size_t>(n));
  return n == 0;
}

}  // namespace

std::vector<std::string> in_children(std::size_t count, int jobs, const std::function<std::string(std::size_t)>& work,
                                     const std::function<void(std::size_t, const std::string&)>& done) {
  std::vector<std::string> texts(count);
  std::vector<std::exception_ptr> errors(count);
  std::vector<Child> running;
  std::size_t next = 0;
  while (next < count || !running.empty()) {
    while (next < count && static_cast<int>(running.size()) < std::max(1, jobs) && !interrupted()) {
      running.push_back(launch(next, [&work, next] { return work(next); }));
      ++next;
    }
    if (running.empty()) break;  // interrupted
    std::vector<pollfd> polls;
    for (const Child& child : running) polls.push_back({child.pipe, POLLIN, 0});
    if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) throw InternalError("poll failed");
    for (std::size_t i = polls.size(); i-- > 0;) {
      if ((polls[i].revents & (POLLIN | POLLHUP)) == 0 || !read_some(running[i])) continue;
      Child ended = std::move(running[i]);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      errors[ended.index] = end(ended);
      texts[ended.index] = std::move(ended.text);
      if (done && !errors[ended.index]) done(ended.index, texts[ended.index]);
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return texts;
}

std::string in_child(const std::function<std::string()>& work) {
  return in_children(1, 1, [&work](std::size_t) { return work(); }).front();
}

nlohmann::json json_in_child(const std::function<nlohmann::json()>& work) {
  return parse_json(in_child([&work] { return json_text(work()); }));
}

int processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

void watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_interrupted = 1; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}
bool interrupted() { return g_interrupted != 0 && !g_is_child; }
int progress_descriptor() { return g_progress; }

}  // namespace trainyard
