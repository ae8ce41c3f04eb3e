#include "scenarios/studies/sweep_journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "sim/error.hpp"

namespace trainyard {

std::string text_hash(const std::string& text) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:016x}", h);
}

Journal::Journal(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::ifstream in(path_, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t from = 0, to = 0; (to = all.find('\n', from)) != std::string::npos; from = to + 1) {
    const std::string line = all.substr(from, to - from);
    const std::size_t space = line.find(' ');
    if (space != std::string::npos) lines_[line.substr(0, space)] = line.substr(space + 1);
  }
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) throw UserError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
  // What a killed run left half is ended, else the next line would join it.
  if (!all.empty() && all.back() != '\n' && ::write(file_, "\n", 1) != 1)
    throw UserError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
}

Journal::~Journal() {
  if (file_ < 0) return;
  if (::lseek(file_, 0, SEEK_END) == 0) ::unlink(path_.c_str());  // nothing to resume from
  ::close(file_);
}

const std::string* Journal::find(const std::string& key) const {
  const auto at = lines_.find(key);
  return at == lines_.end() ? nullptr : &at->second;
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
