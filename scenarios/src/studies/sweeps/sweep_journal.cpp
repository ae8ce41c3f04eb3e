#include "scenarios/src/studies/sweeps/sweep_journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

#include "models/reading/shipped_files.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

/// Identifies the program by the state of its file.
std::string program_stamp() {
  struct stat status = {};
  if (::stat(program_file().c_str(), &status) != 0) return "";
  return fmt::format("{} {} {}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void describe(const Node& node, std::string& out) {
  out += fmt::format("{}{}:{};", static_cast<int>(node.kind), node.quoted ? "q" : "", node.scalar);
  for (const Node& item : node.items) describe(item, out);
  for (const auto& [key, field] : node.fields) {
    out += key + "=";
    describe(field, out);
  }
  out += ")";
}

constexpr std::string_view kCheck = "{\"check\":\"";  // first field of lines that are JSON objects
constexpr std::size_t kDigits = 16;

/// Returns the 64-bit FNV-1a hash of a text as 16 hexadecimal digits.
std::string text_hash(const std::string& text) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:016x}", h);
}

}  // namespace

std::string answer_key(const Scenario& s) {
  static const std::string stamp = program_stamp();
  std::string all = stamp + "\n";
  describe(s.document, all);
  for (const FigureSource& figure : s.sources) all += figure.figure + "=" + figure.value + "\n";
  all += fmt::format("{} {} {} {}", s.network.parameters(), s.network.forward_flops().value,
                     s.network.backward_flops().value, s.network.activations().value);
  for (const double load : s.plan.sharding.expert_loads) all += fmt::format(" {}", load);  // they may be from a file
  return text_hash(all);
}

std::string answer_key(const std::string& base_key, const Node& document) {
  std::string all = base_key + "\n";
  describe(document, all);
  return text_hash(all);
}

std::string seal_line(const std::string& line) {
  const std::string check = text_hash(line);
  if (!line.starts_with('{')) return check + " " + line;
  return fmt::format("{}{}\"{}{}", kCheck, check, line == "{}" ? "" : ",", line.substr(1));
}

namespace {

/// True if a line begins as a sealed line does, but for at most one character.
bool has_seal(std::string_view line) {
  std::size_t same = 0, digits = 0;
  for (std::size_t i = 0; i < std::min(line.size(), kDigits); ++i) {
    if (i < kCheck.size() && line[i] == kCheck[i]) ++same;
    if (std::isxdigit(static_cast<unsigned char>(line[i]))) ++digits;
  }
  return same + 1 >= kCheck.size() || digits + 1 >= kDigits;
}

}  // namespace

std::string unseal_line(const std::string& line, const std::filesystem::path& file, std::size_t number) {
  const bool is_object = line.starts_with(kCheck);
  const std::size_t position = is_object ? kCheck.size() : 0, rest = position + kDigits + (is_object ? 2 : 1);
  std::string text = rest <= line.size() ? line.substr(rest) : "";
  if (is_object) text.insert(text.begin(), '{');
  if (!has_seal(line))
    throw UserError(
        fmt::format("{}:{}: no line of points: it begins with no checksum; expected a file that --points has written",
                    file.string(), number));
  if (rest > line.size() || seal_line(text) != line)
    throw UserError(
        fmt::format("{}:{}: this line of points was changed after it was written (its checksum differs or is missing). "
                    "Remove the file and run the command again, which writes a new one",
                    file.string(), number));
  return text;
}

Journal::Journal(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.empty()) return;
  // The file lies beside the output, where another user may have put a link. Links in /proc belong to this process.
  const int link_flags = path_.string().starts_with("/proc/self/fd/") ? 0 : O_NOFOLLOW;
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | link_flags, 0666);
  if (file_ < 0)
    throw UserError(fmt::format("cannot write {}: {}", path_.string(),
                                errno == ELOOP ? "it is a symbolic link" : std::strerror(errno)));
  try {
    // A line that a killed run left incomplete is removed, else the next line would be appended to it.
    if (const off_t complete_size = read_keys();
        complete_size < ::lseek(file_, 0, SEEK_END) && ::ftruncate(file_, complete_size) != 0)
      throw UserError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
  } catch (...) {
    ::close(file_);
    throw;
  }
}

/// Reads all keys. Returns the end of the last complete line.
off_t Journal::read_keys() {
  in_.open(path_, std::ios::binary);
  std::streamoff position = 0;
  std::size_t number = 0;
  for (std::string line; std::getline(in_, line) && !in_.eof();
       position += static_cast<std::streamoff>(line.size()) + 1) {
    const std::string text = unseal_line(line, path_, ++number);
    if (const std::size_t space = text.find(' '); space != std::string::npos)
      entries_.push_back({std::hash<std::string_view>()(std::string_view(text).substr(0, space)), position, number});
  }
  in_.clear();
  std::ranges::sort(entries_);
  return position;
}

Journal::~Journal() {
  if (file_ < 0) return;
  if (::lseek(file_, 0, SEEK_END) == 0) ::unlink(path_.c_str());  // nothing to resume from
  ::close(file_);
}

std::optional<std::string> Journal::find(const std::string& key) const {
  const std::size_t hash = std::hash<std::string_view>()(key);
  const auto end = std::ranges::partition_point(entries_, [hash](const Entry& e) { return e.hash <= hash; });
  for (auto entry = end; entry != entries_.begin() && (--entry)->hash == hash;) {
    std::string line;
    in_.seekg(entry->offset);
    if (!std::getline(in_, line)) continue;
    const std::string text = unseal_line(line, path_, entry->line);
    if (text.starts_with(key + " ")) return text.substr(key.size() + 1);
  }
  return std::nullopt;
}

void Journal::add(const std::string& key, const std::string& text) {
  if (file_ < 0) return;
  const std::string line = seal_line(fmt::format("{} {}", key, text)) + "\n";
  const off_t complete_size = ::lseek(file_, 0, SEEK_END);
  for (std::size_t position = 0; position < line.size();) {
    const ssize_t n = ::write(file_, line.data() + position, line.size() - position);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      // If this fails, an incomplete line remains, which is not read.
      const bool is_cut_off = ::ftruncate(file_, complete_size) == 0;
      throw UserError(fmt::format(
          "cannot write {}: {}{}", path_.string(), std::strerror(error),
          complete_size > 0 || !is_cut_off ? "; the points that it has are kept for the same command again" : ""));
    }
    position += static_cast<std::size_t>(n);
  }
}

}  // namespace trainyard
