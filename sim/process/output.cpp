#include "sim/process/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "sim/error.hpp"

namespace trainyard {
namespace {

std::vector<const PlannedOutputs*>& planned_outputs() {
  static std::vector<const PlannedOutputs*> all;
  return all;
}

[[noreturn]] void cannot_write(const std::string& where, int error) {
  throw UserError(fmt::format("cannot write {}: {}", where, std::strerror(error)));
}

/// Where the pieces of a file go: beside it.
std::filesystem::path target_of(const std::filesystem::path& path) {
  const bool special = std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
  return special ? path : std::filesystem::path(fmt::format("{}.{}.tmp", path.string(), ::getpid()));
}

}  // namespace

PlannedOutputs::PlannedOutputs() { planned_outputs().push_back(this); }
PlannedOutputs::~PlannedOutputs() { std::erase(planned_outputs(), this); }

void PlannedOutputs::add(std::string words, std::filesystem::path file) {
  files_.emplace_back(std::move(words), std::move(file));
}

void check_input(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return;  // a device or pipe keeps nothing
  for (const PlannedOutputs* outputs : planned_outputs())
    for (const auto& [words, output] : outputs->files_)
      if (std::filesystem::equivalent(file, output, ignored))
        throw UserError(fmt::format("{} {}: would overwrite {}, which is read", words, output.string(), file.string()));
}

void prepare_standard_files() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free: this one. The wrong way round for 0 and 1, so that using them is an error.
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

void complain(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

void check_writable(const std::filesystem::path& path) {
  if (path == "-") return;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (path.empty() || std::filesystem::is_directory(path))
    throw UserError(fmt::format("cannot write {}: it is a folder", path.string()));
  if (!std::filesystem::is_directory(folder))
    throw UserError(fmt::format("cannot write {}: no folder {}", path.string(), folder.string()));
  if (::access(folder.c_str(), W_OK) != 0 && std::filesystem::exists(folder) && !std::filesystem::exists(path))
    throw UserError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

AtomicOutput::AtomicOutput(std::filesystem::path path) : path_(std::move(path)) {
  check_writable(path_);
  target_ = target_of(path_);
  file_ = std::fopen(target_.c_str(), "wb");
  if (!file_) cannot_write(path_.string(), errno);
}

AtomicOutput::~AtomicOutput() {
  if (!file_) return;
  std::fclose(file_);
  if (!special()) std::remove(target_.c_str());
}

void AtomicOutput::fail(int error) {
  if (file_) std::fclose(std::exchange(file_, nullptr));
  if (!special()) std::remove(target_.c_str());
  cannot_write(path_.string(), error);
}

void AtomicOutput::add(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail(errno);
}

const std::filesystem::path& AtomicOutput::flushed() {
  if (std::fflush(file_) != 0) fail(errno);
  return target_;
}

void AtomicOutput::commit() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(errno);
  if (!special() && std::rename(target_.c_str(), path_.c_str()) != 0) fail(errno);
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      cannot_write("to stdout", errno);
    return;
  }
  AtomicOutput file(path);
  file.add(text);
  file.commit();
}

}  // namespace trainyard
