#include "sim/process/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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
#include <utility>

#include "sim/error.hpp"
#include "sim/process/time_limit.hpp"
#include "sim/process/waiting.hpp"

namespace trainyard {
namespace {

volatile sig_atomic_t g_interrupted = 0;  // the signal
timespec g_interrupted_at{};
bool g_is_child = false;
int g_progress = STDERR_FILENO;

constexpr int kEndedWithParent = 1;  // nobody sees it

enum class Status : char { result = 'R', user = 'U', deadlock = 'D', machine_limit = 'N', internal = 'I' };

/// It is killed where it is still there at the end; what it has forked ends with it.
struct Child {
  pid_t pid = -1;
  int pipe = -1;
  int caught_stderr = -1;
  Child() = default;
  Child(Child&& other) noexcept
      : pid(std::exchange(other.pid, -1)),
        pipe(std::exchange(other.pipe, -1)),
        caught_stderr(std::exchange(other.caught_stderr, -1)) {}
  ~Child() {
    if (pipe >= 0) ::close(pipe);
    if (caught_stderr >= 0) ::close(caught_stderr);
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
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
  } catch (const MachineLimit& e) {
    return static_cast<char>(Status::machine_limit) + std::string(e.what());
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
  if (kind == Status::machine_limit) return std::make_exception_ptr(MachineLimit(outcome));
  if (kind == Status::internal) return std::make_exception_ptr(InternalError(outcome));
  return nullptr;
}

[[noreturn]] void cannot_launch() {
  const int error = errno;
  throw MachineLimit(fmt::format("cannot start a simulation in a process of its own: {}{}", std::strerror(error),
                                 error == EMFILE   ? " (ulimit -n tells and sets how many there may be)"
                                 : error == EAGAIN ? " (ulimit -u tells and sets how many there may be)"
                                                   : ""));
}

/// A child that writes what its work gives into a pipe.
Child launch(const std::function<std::string()>& work) {
  int ends[2];
  Child child;
  child.caught_stderr = ::memfd_create("stderr", MFD_CLOEXEC);
  if (child.caught_stderr < 0 || ::pipe2(ends, O_CLOEXEC) != 0) cannot_launch();
  std::fflush(nullptr);  // else the child would write our buffers too
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid < 0) {
    const int error = errno;
    for (const int pipe_end : ends) ::close(pipe_end);
    errno = error;
    cannot_launch();
  }
  if (child.pid == 0) {
    end_with_parent(parent);
    g_is_child = true;
    g_progress = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    ::dup2(child.caught_stderr, STDERR_FILENO);
    write_all(ends[1], outcome_of(work));
    _exit(0);  // no destructors, no exit handlers: those are the parent's
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

/// What a child that has closed its pipe without a word died of.
[[noreturn]] void report_death(Child& child) {
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  child.pid = -1;
  // It wrote to a pipe that nobody reads any more (`… --trace - | head`): end as any command does then.
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) ::raise(SIGPIPE);
  const std::string why = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                              : fmt::format("exit status {}", WEXITSTATUS(status));
  std::string said = tail_of(child.caught_stderr);
  std::replace(said.begin(), said.end(), '\n', ' ');
  throw InternalError(fmt::format("the simulation died ({}) {}", why, said));
}

/// Until the child has written, has ended, or a signal has come: then false.
bool wait_for(const Child& child) {
  pollfd poll{child.pipe, POLLIN, 0};
  // A signal between the look for one and the wait would be waited through.
  sigset_t ends, before;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGALRM);
  ::pthread_sigmask(SIG_BLOCK, &ends, &before);
  constexpr timespec kHalfSecond{0, 500'000'000};
  const timespec* limit = waiting_work() ? &kHalfSecond : nullptr;
  const bool waited = interrupted() || ::ppoll(&poll, 1, limit, &before) >= 0 || errno == EINTR;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!waited) throw InternalError("poll failed");
  return (poll.revents & (POLLIN | POLLHUP)) != 0;
}

}  // namespace

std::string in_child(const std::function<std::string()>& work) {
  Child child = launch(work);
  std::string outcome;
  char buffer[65536];
  for (;;) {
    const bool told = wait_for(child);
    if (interrupted()) throw Interrupted();
    if (!told) continue;
    const ssize_t n = ::read(child.pipe, buffer, sizeof buffer);
    if (n > 0) outcome.append(buffer, static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) break;
  }
  if (outcome.empty()) report_death(child);
  if (const std::exception_ptr error = failure_in(outcome)) std::rethrow_exception(error);
  return outcome;
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

/// Seconds since the signal that interrupts.
double since_interrupt() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec - g_interrupted_at.tv_sec) +
         static_cast<double>(now.tv_nsec - g_interrupted_at.tv_nsec) * 1e-9;
}

/// The first signal asks for an orderly end. The process has a second for it, and longer if it has not yet used a second
/// of the processor: several threads use that up sooner, and a process that waits for the processor uses it up later. A
/// second signal ends the process at once if it comes at least 0.2 s later: `timeout` sends one signal twice.
void interrupt(int number) {
  constexpr double one_signal = 0.2;  // s
  if (g_interrupted == 0) {
    g_interrupted = number;
    ::clock_gettime(CLOCK_MONOTONIC, &g_interrupted_at);
    const itimerval end{{0, 20000}, {1, 0}};
    ::setitimer(ITIMER_PROF, &end, nullptr);
  } else if (since_interrupt() > one_signal) {
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
  action.sa_handler = [](int) {
    if (since_interrupt() >= 1) end_by(g_interrupted);
  };
  action.sa_flags = SA_RESTART;  // what is printed in that second is printed whole
  ::sigaction(SIGPROF, &action, nullptr);
}
bool interrupted() { return (g_interrupted != 0 || time_is_over()) && !g_is_child; }
int progress_descriptor() { return g_progress; }

}  // namespace trainyard
