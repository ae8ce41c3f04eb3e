#pragma once
#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

/// The line with a checksum: in a JSON object its first field, "check"; else before it.
std::string sealed(const std::string& line);
/// The line that was sealed. Throws UserError naming file and line where it is another.
std::string unsealed(const std::string& line, const std::filesystem::path& file, std::size_t number);

/// Answers by key in a file, a line each, written as they come: what an interrupted job has done already. A last line that
/// is not whole (the job was killed in it) is taken away.
class Journal {
 public:
  /// Reads what is there. An empty path keeps nothing. Throws UserError where the file cannot be read or written, is a
  /// symbolic link, or has a line that is not as it was written.
  explicit Journal(std::filesystem::path);
  ~Journal();  ///< removes a file without a line
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  bool empty() const { return entries_.empty(); }  ///< nothing was there
  /// What the last line of that key has behind it. Lines stay in the file: a journal of millions is no burden.
  std::optional<std::string> find(const std::string& key) const;
  /// Appends a line; `text` has none of its own. Throws UserError when the disk is full.
  void add(const std::string& key, const std::string& text);

 private:
  std::filesystem::path path_;
  int file_ = -1;
  struct Entry {
    std::size_t hash;  ///< of the key
    std::streamoff at;
    std::size_t line;  ///< from 1
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<Entry> entries_;  ///< in order
  mutable std::ifstream in_;

  off_t read_keys();
};

/// 64 bits of a text, as 16 hexadecimal digits: FNV-1a.
std::string text_hash(const std::string&);

}  // namespace trainyard
