#include "scenarios/studies/sweeps/sweep_journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>

#include "sim/error.hpp"

namespace trainyard {

std::string text_hash(const std::string& text) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:016x}", h);
}

Journal::Journal(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.empty()) return;
  read_keys();
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) throw UserError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
  // What a killed run left half is ended, else the next line would join it.
  const off_t size = ::lseek(file_, 0, SEEK_END);
  char last = '\n';
  if (size > 0 && ::pread(file_, &last, 1, size - 1) == 1 && last != '\n' && ::write(file_, "\n", 1) != 1)
    throw UserError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
}

void Journal::read_keys() {
  in_.open(path_, std::ios::binary);
  std::streamoff at = 0;
  for (std::string line; std::getline(in_, line) && !in_.eof(); at += static_cast<std::streamoff>(line.size()) + 1)
    if (const std::size_t space = line.find(' '); space != std::string::npos)
      entries_.push_back({std::hash<std::string_view>()(std::string_view(line).substr(0, space)), at});
  in_.clear();
  std::sort(entries_.begin(), entries_.end());
}

Journal::~Journal() {
  if (file_ < 0) return;
  if (::lseek(file_, 0, SEEK_END) == 0) ::unlink(path_.c_str());  // nothing to resume from
  ::close(file_);
}

std::optional<std::string> Journal::find(const std::string& key) const {
  const std::size_t hash = std::hash<std::string_view>()(key);
  const auto end =
      std::partition_point(entries_.begin(), entries_.end(), [hash](const Entry& e) { return e.hash <= hash; });
  for (auto entry = end; entry != entries_.begin() && (--entry)->hash == hash;) {
    std::string line;
    in_.seekg(entry->at);
    if (std::getline(in_, line) && line.starts_with(key + " ")) return line.substr(key.size() + 1);
  }
  return std::nullopt;
}

void Journal::add(const std::string& key, const std::string& text) {
  if (file_ < 0) return;
  const std::string line = fmt::format("{} {}\n", key, text);
  const off_t whole = ::lseek(file_, 0, SEEK_END);
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(file_, line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      const bool cut = ::ftruncate(file_, whole) == 0;  // else a half line stays, which is not read
      throw UserError(
          fmt::format("cannot write {}: {}{}", path_.string(), std::strerror(error),
                      whole > 0 || !cut ? "; the points that it has are kept for the same command again" : ""));
    }
    at += static_cast<std::size_t>(n);
  }
}

}  // namespace trainyard
