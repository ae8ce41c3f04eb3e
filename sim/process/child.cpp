#include "sim/process/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/time_limit.hpp"
#include "sim/process/waiting.hpp"

namespace trainyard {
namespace {

volatile sig_atomic_t g_interrupted = 0;  // the signal
timespec g_interrupted_at{};
bool g_is_child = false;
int g_progress = STDERR_FILENO;

constexpr int kEndedWithParent = 1;  // nobody sees it

enum class Status : char { result = 'R', user = 'U', deadlock = 'D', no_process = 'N', internal = 'I' };

struct Child {
  std::size_t index = 0;  // what it works at
  std::size_t taken = 0;  // numbers up to now
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

/// What work gives, or what it fails with, after a letter that tells which.
std::string outcome_of(const std::function<std::string()>& work) {
  try {
    std::string text = work();
    text.insert(text.begin(), static_cast<char>(Status::result));
    return text;
  } catch (const Deadlock& e) {
    return static_cast<char>(Status::deadlock) + std::string(e.what());
  } catch (const UserError& e) {
    return static_cast<char>(Status::user) + std::string(e.what());
  } catch (const NoProcess& e) {
    return static_cast<char>(Status::no_process) + std::string(e.what());
  } catch (const std::exception& e) {
    return static_cast<char>(Status::internal) + std::string(e.what());
  }
}

/// Takes the letter off; null: it is a result.
std::exception_ptr failure_in(std::string& outcome) {
  const auto kind = static_cast<Status>(outcome.front());
  outcome.erase(0, 1);
  if (kind == Status::deadlock) return std::make_exception_ptr(Deadlock(outcome));
  if (kind == Status::user) return std::make_exception_ptr(UserError(outcome));
  if (kind == Status::no_process) return std::make_exception_ptr(NoProcess(outcome));
  if (kind == Status::internal) return std::make_exception_ptr(InternalError(outcome));
  return nullptr;
}

[[noreturn]] void cannot_launch(const Child& child) {
  const int error = errno;
  if (child.caught_stderr >= 0) ::close(child.caught_stderr);
  throw NoProcess(fmt::format("cannot start a simulation in a process of its own: {}{}", std::strerror(error),
                              error == EMFILE   ? " (ulimit -n tells and sets how many there may be)"
                              : error == EAGAIN ? " (ulimit -u tells and sets how many there may be)"
                                                : ""));
}

/// `body` is given the child's end of the pipe. The others are those that it must not keep alive by knowing them.
Child launch(const std::vector<Child>& others, const std::function<void(int)>& body) {
  int ends[2];
  Child child;
  child.caught_stderr = ::memfd_create("stderr", MFD_CLOEXEC);
  if (child.caught_stderr < 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) cannot_launch(child);
  std::fflush(nullptr);  // else the child would write our buffers too
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid < 0) {
    const int error = errno;
    for (const int pipe_end : ends) ::close(pipe_end);
    errno = error;
    cannot_launch(child);
  }
  if (child.pid == 0) {
    end_with_parent(parent);
    ::close(ends[0]);
    for (const Child& other : others) ::close(other.pipe);
    g_is_child = true;
    g_progress = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    ::dup2(child.caught_stderr, STDERR_FILENO);
    body(ends[1]);
    _exit(0);  // no destructors, no exit handlers: the engine's are those of the parent
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

/// The child has closed its pipe: what it died of, if it did so at work.
std::exception_ptr end(Child& child) {
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::close(child.pipe);
  // It wrote to a pipe that nobody reads any more (`… --trace - | head`): end as any command does then.
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) ::raise(SIGPIPE);
  const std::string why = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                              : fmt::format("exit status {}", WEXITSTATUS(status));
  std::string said = tail_of(child.caught_stderr);
  ::close(child.caught_stderr);
  std::replace(said.begin(), said.end(), '\n', ' ');
  return std::make_exception_ptr(InternalError(fmt::format("the simulation died ({}) {}", why, said)));
}

/// Reads what has come; true when the child has closed its end.
bool read_some(Child& child) {
  char buffer[65536];
  const ssize_t n = ::read(child.pipe, buffer, sizeof buffer);
  if (n < 0) return errno != EINTR;
  child.text.append(buffer, static_cast<std::size_t>(n));
  return n == 0;
}

/// Until children have written, or have ended: those are marked. Or until a signal comes.
std::vector<char> wait_for_some(const std::vector<Child>& running) {
  std::vector<pollfd> polls;
  for (const Child& child : running) polls.push_back({child.pipe, POLLIN, 0});
  // A signal between the look for one and the wait would be waited through.
  sigset_t ends, before;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGALRM);
  ::pthread_sigmask(SIG_BLOCK, &ends, &before);
  constexpr timespec kHalfSecond{0, 500'000'000};
  const timespec* limit = waiting_work() ? &kHalfSecond : nullptr;
  const bool waited = interrupted() || ::ppoll(polls.data(), polls.size(), limit, &before) >= 0 || errno == EINTR;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!waited) throw InternalError("poll failed");
  std::vector<char> told;
  for (const pollfd& poll : polls) told.push_back((poll.revents & (POLLIN | POLLHUP)) != 0);
  return told;
}

/// A child's life: it is told a number, and sends how long a text its work gives, and the text; until it is told no more.
void serve(int pipe, const std::function<std::string(std::size_t)>& work) {
  std::uint64_t index = 0;
  while (::recv(pipe, &index, sizeof index, MSG_WAITALL) == static_cast<ssize_t>(sizeof index)) {
    const std::string text = outcome_of([&work, index] { return work(index); });
    const std::uint64_t size = text.size();
    write_all(pipe, std::string(reinterpret_cast<const char*>(&size), sizeof size) + text);
  }
}

/// Hands on the next number, if there is one and the child has not had its `most`; else it ends.
void tell(Child& child, std::size_t& next, std::size_t count, std::size_t most) {
  if (next == count || child.taken == most || interrupted()) {
    ::shutdown(child.pipe, SHUT_WR);
    return;
  }
  ++child.taken;
  child.index = next;
  const std::uint64_t index = next++;
  ::send(child.pipe, &index, sizeof index, MSG_NOSIGNAL);  // to one that has died: its end is seen
}

/// The text that a child has sent whole; nothing if there is more to come.
std::optional<std::string> whole_text(Child& child) {
  std::uint64_t size = 0;
  if (child.text.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, child.text.data(), sizeof size);
  if (child.text.size() < sizeof size + size) return std::nullopt;
  std::string text = child.text.substr(sizeof size);
  child.text.clear();
  return text;
}

/// Those that are still there when `done` throws, or a signal has come, are killed; what they have forked ends with them.
struct Running {
  std::vector<Child> children;
  ~Running() {
    for (Child& child : children) {
      ::kill(child.pid, SIGKILL);
      ::close(child.pipe);
      ::close(child.caught_stderr);
      while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
};

/// Children that take one number after the other, `most` each.
std::vector<std::string> in_processes(std::size_t count, int jobs, std::size_t most,
                                      const std::function<std::string(std::size_t)>& work,
                                      const std::function<void(std::size_t, const std::string&)>& done) {
  std::vector<std::string> texts(count);
  std::vector<std::exception_ptr> errors(count);
  Running those;
  std::vector<Child>& running = those.children;
  std::size_t next = 0;
  while (!running.empty() || (next < count && !interrupted())) {
    while (static_cast<int>(running.size()) < std::max(1, jobs) && next < count && !interrupted()) {
      running.push_back(launch(running, [&work](int pipe) { serve(pipe, work); }));
      tell(running.back(), next, count, most);
    }
    const std::vector<char> told = wait_for_some(running);
    if (interrupted()) break;
    for (std::size_t i = told.size(); i-- > 0;) {
      Child& child = running[i];
      const bool ended = told[i] && read_some(child);
      if (std::optional<std::string> text = whole_text(child)) {
        const std::size_t index = std::exchange(child.index, count);
        errors[index] = failure_in(*text);
        texts[index] = std::move(*text);
        if (done && !errors[index]) done(index, texts[index]);
        tell(child, next, count, most);
      }
      if (!ended) continue;
      Child last = std::move(child);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      const std::exception_ptr error = end(last);
      if (last.index < count) errors[last.index] = error;
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return texts;
}

}  // namespace

std::vector<std::string> in_children(std::size_t count, int jobs, const std::function<std::string(std::size_t)>& work,
                                     const std::function<void(std::size_t, const std::string&)>& done) {
  return in_processes(count, jobs, 1, work, done);
}

std::vector<std::string> in_workers(std::size_t count, int jobs, const std::function<std::string(std::size_t)>& work,
                                    const std::function<void(std::size_t, const std::string&)>& done) {
  return in_processes(count, jobs, count, work, done);
}

std::string in_child(const std::function<std::string()>& work) {
  bool ended = false;
  std::vector<std::string> texts = in_processes(
      1, 1, 1, [&work](std::size_t) { return work(); }, [&ended](std::size_t, const std::string&) { ended = true; });
  if (!ended) throw Interrupted();
  return std::move(texts.front());
}

nlohmann::json json_in_child(const std::function<nlohmann::json()>& work) {
  return parse_json(in_child([&work] { return json_text(work()); }));
}

int processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

void end_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kEndedWithParent);  // it ended before that
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
}

namespace {

void end_by(int number) {
  ::signal(number, SIG_DFL);
  ::raise(number);
}

/// The first signal asks for an orderly end, which is given a second of the processor. A second one ends at once, if it
/// is another: `timeout` sends its signal to the process and to its group.
void interrupt(int number) {
  constexpr time_t orderly_seconds = 1;
  constexpr long one_signal_ns = 200000000, ns = 1000000000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (g_interrupted == 0) {
    g_interrupted = number;
    g_interrupted_at = now;
    const itimerval end{{0, 0}, {orderly_seconds, 0}};
    ::setitimer(ITIMER_PROF, &end, nullptr);
  } else if ((now.tv_sec - g_interrupted_at.tv_sec) * ns + now.tv_nsec - g_interrupted_at.tv_nsec > one_signal_ns) {
    end_by(number);
  }
}

}  // namespace

void watch_interrupts() {
  if (g_is_child) return;  // its parent obeys, and kills it
  struct sigaction action = {};
  action.sa_handler = interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = [](int) { end_by(g_interrupted); };
  ::sigaction(SIGPROF, &action, nullptr);
}
bool interrupted() { return (g_interrupted != 0 || time_is_over()) && !g_is_child; }
int progress_descriptor() { return g_progress; }

}  // namespace trainyard
