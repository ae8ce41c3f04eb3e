#include "sim/transports/engine_process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sim/error.hpp"
#include "sim/process/job.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

/// Finds the engine's program relative to this program, in the build folder or in an installation. In both, the Python
/// module lies some folders deeper than the program.
fs::path engine_program() {
  constexpr const char* name = "trainyard_simgrid";
  Dl_info our_library{};
  ::dladdr(reinterpret_cast<const void*>(&engine_program), &our_library);
  std::error_code ignored;
  const fs::path own_program = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& file : {own_program, fs::path(our_library.dli_fname ? our_library.dli_fname : "")})
    for (const char* folder : {".", "../libexec/trainyard", "../..", "../../../../libexec/trainyard"})
      if (const fs::path program = file.parent_path() / folder / name; fs::exists(program, ignored)) return program;
  throw InternalError(fmt::format(
      "the engine of --transport native and packets, {}, is not beside {}: build it, or install all of Trainyard", name,
      own_program.string()));
}

/// While it lives, this thread and a process take turns on one processor: waking one on another processor takes five
/// times as long. Does nothing if that is not permitted.
class OneProcessor {
 public:
  explicit OneProcessor(pid_t other) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t processor;
    CPU_ZERO(&processor);
    CPU_SET(::sched_getcpu(), &processor);
    ::sched_setaffinity(0, sizeof processor, &processor);
    ::sched_setaffinity(other, sizeof processor, &processor);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneProcessor(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

}  // namespace

EngineProcess::EngineProcess(std::span<const Link> links, const PacketNetwork* packets)
    : by_packets_(packets != nullptr), shares_(links.size(), 0) {
  start();
  add_setup(orders_, packets != nullptr, links, packets ? *packets : PacketNetwork{});
  flush();
}

void EngineProcess::start() {
  const std::string program = engine_program().string();
  std::array<int, 2> ends{-1, -1};
  caught_stderr_ = ::memfd_create("stderr", MFD_CLOEXEC);
  int error = caught_stderr_ < 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0 ? errno : 0;
  if (error == 0) {
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, caught_stderr_, STDERR_FILENO);
    const std::string parent = std::to_string(::getpid());
    const std::array<const char*, 3> words{program.c_str(), parent.c_str(), nullptr};
    error = ::posix_spawn(&process_, program.c_str(), &files, nullptr, const_cast<char* const*>(words.data()), environ);
    ::posix_spawn_file_actions_destroy(&files);
  }
  if (ends[1] >= 0) ::close(ends[1]);
  socket_ = ends[0];
  if (error == 0) return;
  if (socket_ >= 0) ::close(socket_);
  if (caught_stderr_ >= 0) ::close(caught_stderr_);
  throw MachineLimit(fmt::format("cannot start a simulation in a process of its own: {}", std::strerror(error)));
}

EngineProcess::~EngineProcess() {
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::close(socket_);
  ::close(caught_stderr_);
}

void EngineProcess::run(const std::function<double(double)>& step, const std::function<bool()>& enough) {
  const OneProcessor one_processor(process_);
  while (!enough()) {
    EngineMessage message = receive();
    const auto word = message.take<EngineMessageType>();
    if (word == EngineMessageType::ended) return;
    if (word == EngineMessageType::failed) throw UserError(message.take_text());
    const auto now = message.take<double>();
    for (auto links = message.take<std::size_t>(); links > 0; --links) {
      const auto link = message.take<LinkId>();
      shares_[static_cast<std::size_t>(link)] = message.take<double>();
    }
    take_arrived(message);
    const double next = step(now);
    orders_.add(EngineMessageType::go_on, next);
    flush();
  }
}

void EngineProcess::take_arrived(EngineMessage& message) {
  for (const std::uint32_t number : message.take_list<std::uint32_t>()) {
    arrived_.push_back(flows_[FlowId{number}]);
    flows_.release(FlowId{number});
  }
}

std::uint32_t EngineProcess::number_of(std::span<const LinkUse> route) {
  const auto same = [](const LinkUse& a, const LinkUse& b) { return a.link == b.link && a.weight == b.weight; };
  KnownRoute& known_route = routes_[route.data()];
  if (known_route.links.empty() || !std::ranges::equal(known_route.links, route, same)) {
    known_route = {route_count_++, {route.begin(), route.end()}};
    orders_.add(EngineMessageType::new_route);
    orders_.add_list(route);
  }
  return known_route.number;
}

FlowId EngineProcess::send(std::span<const LinkUse> route, Bytes bytes, BytesPerSecond rate_cap, FlowToken token) {
  const FlowId id = flows_.acquire();
  flows_[id] = token;
  const std::uint32_t number = number_of(route);
  orders_.add(EngineMessageType::send, id.number(), number, bytes, rate_cap);
  return id;
}

void EngineProcess::cancel(FlowId id) {
  orders_.add(EngineMessageType::cancel, id.number());
  flows_.release(id);
}

void EngineProcess::set_capacity(LinkId link, BytesPerSecond rate) {
  orders_.add(EngineMessageType::set_capacity, link, rate);
}

Bytes EngineProcess::remaining(FlowId id) const {
  orders_.add(EngineMessageType::remaining, id.number());
  flush();
  EngineMessage message = receive();
  const auto word = message.take<EngineMessageType>();
  if (word == EngineMessageType::failed) throw UserError(message.take_text());
  return message.take<Bytes>();
}

bool EngineProcess::advance(double, double, std::vector<FlowToken>& done) {
  done.insert(done.end(), arrived_.begin(), arrived_.end());
  const bool any = !arrived_.empty();
  arrived_.clear();
  return any;
}

EngineMessage EngineProcess::receive() const {
  constexpr int look_ms = 50;  // how often signals and limits are checked
  pollfd poll{socket_, POLLIN, 0};
  do {
    end_if_interrupted();
  } while (::poll(&poll, 1, look_ms) <= 0);
  EngineMessage message;
  if (!message.read(socket_)) report_death();
  return message;
}

void EngineProcess::flush() const {
  if (!orders_.write(socket_)) report_death();
}

void EngineProcess::report_death() const {
  std::array<char, 4096> text{};
  const off_t size = ::lseek(caught_stderr_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
  const ssize_t n = ::pread(caught_stderr_, text.data(), text.size(), from);
  std::string message(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (by_packets_)  // The TCP of ns-3 has bugs that end its process.
    throw UserError(
        fmt::format("--transport packets: ns-3 crashed on this traffic, because of a bug in its TCP; try other sizes, "
                    "fewer hosts or another --port-buffer ({})",
                    message));
  throw InternalError(fmt::format("the simulation died: {}", message));
}

}  // namespace trainyard
