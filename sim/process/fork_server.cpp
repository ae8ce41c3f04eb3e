#include "sim/process/fork_server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/error.hpp"
#include "sim/process/child.hpp"

namespace trainyard {
namespace {

/// A byte with room for a descriptor beside it.
struct DescriptorMessage {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};

  DescriptorMessage() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = space;
    header.msg_controllen = sizeof space;
  }
  DescriptorMessage(const DescriptorMessage&) = delete;  // it points into itself
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;
};

/// Sends a descriptor to the other end. False where that is gone.
bool send_descriptor(int through, int descriptor) {
  DescriptorMessage message;
  cmsghdr* head = CMSG_FIRSTHDR(&message.header);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  ssize_t sent = -1;
  do sent = ::sendmsg(through, &message.header, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == 1;
}

/// The next descriptor that was sent; -1 where the other end is gone.
int receive_descriptor(int through) {
  DescriptorMessage message;
  int descriptor = -1;
  ssize_t got = -1;
  do got = ::recvmsg(through, &message.header, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  const cmsghdr* head = CMSG_FIRSTHDR(&message.header);
  if (got == 1 && head && head->cmsg_type == SCM_RIGHTS) std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
  return descriptor;
}

/// What is asked ends with the channel's half; what comes back has this before it.
struct FrameHead {
  std::uint64_t size;
  bool answer;  ///< else a note
};

bool send_all(int channel, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::send(channel, data.data(), data.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// In one piece, since children of a worker send notes too.
bool send_frame(int channel, const std::string& text, bool answer) {
  FrameHead head{};
  head.size = text.size();
  head.answer = answer;
  std::string frame(sizeof head, 0);
  std::memcpy(frame.data(), &head, sizeof head);
  return send_all(channel, frame + text);
}

/// Adds what has come. False at the end.
bool receive_some(int channel, std::string& text) {
  char buffer[65536];
  const ssize_t n = ::recv(channel, buffer, sizeof buffer, 0);
  if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

/// The process: it takes channels, each with a question in it, and has a worker for each.
class Dispatcher {
 public:
  Dispatcher(pid_t parent, int control, const ForkServer::Work& work, int jobs)
      : control_(control), work_(work), jobs_(jobs) {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, &before_);
    ended_ = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    ::signal(SIGINT, SIG_IGN);  // the terminal's; this ends with its parent
    ::signal(SIGTERM, SIG_IGN);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    // Others that its parent has forked may know the control, and so hide that the parent is gone.
    parent_ = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
    close_others();
  }

  void run() {
    while (true) {
      std::vector<pollfd> polls{{control_, POLLIN, 0}, {ended_, POLLIN, 0}, {parent_, POLLIN, 0}};
      const std::size_t own = polls.size();
      for (const Worker& worker : workers_) polls.push_back({worker.channel, 0, 0});
      if (::poll(polls.data(), polls.size(), -1) < 0) continue;
      if (polls[2].revents & POLLIN) break;
      for (std::size_t i = own; i < polls.size(); ++i)
        if (polls[i].revents & (POLLHUP | POLLERR)) give_up(workers_[i - own]);
      if (polls[1].revents & POLLIN) reap();
      if (polls[0].revents & (POLLIN | POLLHUP)) {
        const int channel = receive_descriptor(control_);
        if (channel < 0) break;
        workers_.push_back({channel, 0});
      }
      std::erase_if(workers_, [](const Worker& worker) { return worker.channel < 0 && worker.pid == 0; });
      launch();
    }
    for (const Worker& worker : workers_)
      if (worker.pid > 0) ::kill(-worker.pid, SIGKILL);
  }

 private:
  /// Of a program that this is a part of, its files: pipes whose other ends would wait for this process.
  void close_others() const {
    std::array<int, 3> own{control_, ended_, parent_};
    std::sort(own.begin(), own.end());
    unsigned from = STDERR_FILENO + 1;
    for (const int descriptor : own) {
      if (descriptor < 0) continue;
      const auto kept = static_cast<unsigned>(descriptor);
      if (kept > from) ::close_range(from, kept - 1, 0);
      from = kept + 1;
    }
    ::close_range(from, ~0U, 0);
  }

  struct Worker {
    int channel;  ///< -1: nobody waits for it
    pid_t pid;    ///< 0: not yet, or no longer
  };
  int control_;
  const ForkServer::Work& work_;
  int jobs_;
  int ended_ = -1, parent_ = -1;  // -1: the kernel has no such descriptor
  sigset_t before_{};
  std::vector<Worker> workers_;

  void give_up(Worker& worker) {
    if (worker.pid > 0) ::kill(-worker.pid, SIGKILL);
    ::close(worker.channel);
    worker.channel = -1;
  }

  /// Of a worker that has ended, what it forked ends too, and is ours since then.
  void reap() {
    signalfd_siginfo ignored{};
    while (::read(ended_, &ignored, sizeof ignored) > 0) continue;
    for (siginfo_t info{}; ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0; info = {}) {
      const auto at =
          std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.pid == info.si_pid; });
      if (at != workers_.end()) {
        ::kill(-at->pid, SIGKILL);
        at->pid = 0;
        if (at->channel >= 0) ::close(at->channel);
        at->channel = -1;
      }
      ::waitpid(info.si_pid, nullptr, 0);
    }
  }

  void launch() {
    auto running = std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.pid > 0; });
    for (Worker& worker : workers_) {
      if (running >= jobs_) return;
      if (worker.pid > 0) continue;
      const pid_t own = ::getpid(), pid = ::fork();
      if (pid == 0) answer(worker.channel, own);
      if (pid < 0) {  // who asked sees the end of the channel
        give_up(worker);
        continue;
      }
      ::setpgid(pid, pid);  // here as well as there: whoever is first
      worker.pid = pid;
      ++running;
    }
  }

  [[noreturn]] void answer(int channel, pid_t dispatcher) {
    ::setpgid(0, 0);
    end_with_parent(dispatcher);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::close(control_);
    ::close(ended_);
    ::close(parent_);
    for (const Worker& worker : workers_)
      if (worker.channel != channel && worker.channel >= 0) ::close(worker.channel);
    std::string question;
    while (receive_some(channel, question)) continue;
    constexpr std::size_t most = 4096;  // bytes: a longer one could be cut by another
    send_frame(
        channel,
        work_(question, [channel](const std::string& note) { send_frame(channel, note.substr(0, most), false); }),
        true);
    _exit(0);
  }
};

}  // namespace

ForkServer::ForkServer(Work work, int jobs) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw InternalError(fmt::format("cannot start workers: {}", std::strerror(errno)));
  std::fflush(nullptr);  // else the process would write our buffers too
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ < 0) throw InternalError(fmt::format("cannot start workers: {}", std::strerror(errno)));
  if (process_ == 0) {
    ::close(ends[0]);
    Dispatcher(parent, ends[1], work, std::max(1, jobs)).run();
    _exit(0);
  }
  ::close(ends[1]);
  control_ = ends[0];
}

ForkServer::~ForkServer() {
  ::close(control_);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

ForkServer::Job ForkServer::ask(const std::string& question) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw InternalError(fmt::format("cannot ask a worker: {}", std::strerror(errno)));
  Job job(ends[0]);
  bool sent = false;
  {
    const std::lock_guard lock(one_at_a_time_);
    sent = send_descriptor(control_, ends[1]);
  }
  ::close(ends[1]);
  if (!sent) throw InternalError("the workers are gone");
  send_all(ends[0], question);
  ::shutdown(ends[0], SHUT_WR);
  return job;
}

ForkServer::Job::Job(Job&& other) noexcept
    : channel_(std::exchange(other.channel_, -1)),
      over_(other.over_),
      text_(std::move(other.text_)),
      notes_(std::move(other.notes_)),
      answer_(std::move(other.answer_)) {}
ForkServer::Job::~Job() {
  if (channel_ >= 0) ::close(channel_);
}

bool ForkServer::Job::over_within(int milliseconds) {
  pollfd poll{channel_, POLLIN, 0};
  while (!over_ && ::poll(&poll, 1, milliseconds) > 0) {
    over_ = !receive_some(channel_, text_);
    take_whole();
  }
  return over_;
}

void ForkServer::Job::take_whole() {
  FrameHead head{};
  std::size_t at = 0;
  for (; text_.size() - at >= sizeof head; at += sizeof head + head.size) {
    std::memcpy(&head, text_.data() + at, sizeof head);
    if (text_.size() - at - sizeof head < head.size) break;
    std::string text = text_.substr(at + sizeof head, head.size);
    if (head.answer)
      answer_ = std::move(text);
    else
      notes_.push_back(std::move(text));
  }
  text_.erase(0, at);
  over_ = over_ || answer_;
}

}  // namespace trainyard
