#include "sim/process/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// Planned outputs of all threads: no thread may read a file that another one will write.
struct AllPlannedOutputs {
  std::mutex mutex;
  std::vector<const PlannedOutputs*> all;
};
AllPlannedOutputs& planned_outputs() {
  static AllPlannedOutputs outputs;
  return outputs;
}

thread_local CaughtOutput* g_caught = nullptr;

[[noreturn]] void cannot_write(const std::string& where, int error) {
  throw UserError(fmt::format("cannot write {}: {}", where, std::strerror(error)));
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// A path by which an open file of this process can be read and linked.
std::filesystem::path path_of(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

/// Returns an unpredictable name in the folder. Calls `take` with one name after another, as long as it fails because a
/// file of the name exists.
template <class Take>
std::filesystem::path random_name_in(const std::filesystem::path& folder, const Take& take) {
  constexpr std::size_t bytes = 12;
  constexpr int most = 100;
  std::filesystem::path name;
  for (int i = 0; i < most; ++i) {
    name = folder / (".trainyard-" + random_digits(bytes));
    if (take(name) || errno != EEXIST) break;
  }
  return name;
}

}  // namespace

std::string random_digits(std::size_t bytes) {
  std::string random(bytes, '\0'), digits;
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) throw InternalError("no random numbers");
  for (const char byte : random) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

PlannedOutputs::PlannedOutputs() {
  const std::lock_guard lock(planned_outputs().mutex);
  planned_outputs().all.push_back(this);
}
PlannedOutputs::~PlannedOutputs() {
  const std::lock_guard lock(planned_outputs().mutex);
  std::erase(planned_outputs().all, this);
}

void PlannedOutputs::add(std::string words, std::filesystem::path file) {
  const std::lock_guard lock(planned_outputs().mutex);
  files_.emplace_back(std::move(words), std::move(file));
}

std::string unreadable(const std::filesystem::path& file) {
  std::error_code ignored;
  const char* reason = ::access(file.c_str(), R_OK) != 0 ? std::strerror(errno) : "error of the device";
  if (std::filesystem::is_directory(file, ignored)) reason = "a folder, not a file";
  if (!std::filesystem::exists(file, ignored)) reason = "no such file";
  return fmt::format("{}: cannot be read: {}", file.string(), reason);
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  in.peek();  // a folder opens, too, and only reading it fails
  if (!in.is_open() || in.bad()) throw UserError(unreadable(file));
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

void check_input(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return;  // a device or pipe stores nothing
  const std::lock_guard lock(planned_outputs().mutex);
  for (const PlannedOutputs* outputs : planned_outputs().all)
    for (const auto& [words, output] : outputs->files_)
      if (std::filesystem::equivalent(file, output, ignored))
        throw UserError(fmt::format("{} {}: would overwrite {}, which is read", words, output.string(), file.string()));
}

void prepare_standard_files() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    // `open` returns the lowest free number. 0 and 1 are opened in the wrong direction, so that using them is an error.
    const int opened = ::open("/dev/null", number == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
    if (opened != number && opened >= 0) ::close(opened);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

void check_printed() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return;
  if (!flushed && errno != 0) cannot_write("to stdout", errno);
  throw UserError("cannot write to stdout: not everything could be written");
}

CaughtOutput::CaughtOutput() : outer_(std::exchange(g_caught, this)) {}
CaughtOutput::~CaughtOutput() { g_caught = outer_; }
bool output_is_caught() { return g_caught != nullptr; }

void print(std::string_view text) {
  if (g_caught)
    g_caught->text += text;
  else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    cannot_write("to stdout", errno);
}

void complain(std::string_view line) {
  if (g_caught) return;
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

void check_writable(const std::filesystem::path& path) {
  if (path == "-") return;
  const std::filesystem::path folder = folder_of(path);
  if (path.empty() || std::filesystem::is_directory(path))
    throw UserError(fmt::format("cannot write {}: it is a folder", path.string()));
  if (!std::filesystem::is_directory(folder))
    throw UserError(fmt::format("cannot write {}: no folder {}", path.string(), folder.string()));
  const int error = ::access(folder.c_str(), W_OK) == 0 ? 0 : errno;  // the look-ups below change errno
  if (error != 0 && std::filesystem::exists(folder) && !std::filesystem::exists(path))
    cannot_write(path.string(), error);
}

AtomicOutput::AtomicOutput(std::filesystem::path path) : path_(std::move(path)) {
  check_writable(path_);
  const int descriptor = open_target();
  if (descriptor < 0) cannot_write(path_.string(), errno);
  file_ = ::fdopen(descriptor, "wb");
  if (!file_) cannot_write(path_.string(), errno);
}

/// Opens a special file itself. Otherwise opens a file without a name, so that nothing is left if the process is
/// killed. If the file system has no such files, opens a new file with a random name.
int AtomicOutput::open_target() {
  constexpr mode_t mode = 0666;
  if (std::filesystem::exists(path_) && !std::filesystem::is_regular_file(path_)) {
    target_ = path_;
    return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  }
  const std::filesystem::path folder = folder_of(path_);
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
  if (descriptor >= 0 && std::filesystem::exists(path_of(descriptor))) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  target_ = random_name_in(folder, [&](const std::filesystem::path& name) {
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    return descriptor >= 0;
  });
  return descriptor;
}

/// Removes a temporary file that has a name and was not committed.
void AtomicOutput::drop() {
  if (file_) std::fclose(std::exchange(file_, nullptr));
  if (!special() && !target_.empty()) std::remove(target_.c_str());
  target_.clear();
}

AtomicOutput::~AtomicOutput() { drop(); }

void AtomicOutput::fail(int error) {
  drop();
  cannot_write(path_.string(), error);
}

void AtomicOutput::add(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail(errno);
}

std::filesystem::path AtomicOutput::flush() {
  if (std::fflush(file_) != 0) fail(errno);
  return target_.empty() ? path_of(::fileno(file_)) : target_;
}

void AtomicOutput::commit() {
  if (std::fflush(file_) != 0) fail(errno);
  if (target_.empty()) {
    bool linked = false;
    const std::filesystem::path name = random_name_in(folder_of(path_), [&](const std::filesystem::path& free) {
      linked = ::linkat(AT_FDCWD, path_of(::fileno(file_)).c_str(), AT_FDCWD, free.c_str(), AT_SYMLINK_FOLLOW) == 0;
      return linked;
    });
    if (!linked) fail(errno);
    target_ = name;
  }
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(errno);
  if (!special() && std::rename(target_.c_str(), path_.c_str()) != 0) fail(errno);
  target_.clear();
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  if (path == "-") {
    print(text);
    if (!output_is_caught() && std::fflush(stdout) != 0) cannot_write("to stdout", errno);
    return;
  }
  AtomicOutput file(path);
  file.add(text);
  file.commit();
}

}  // namespace trainyard
