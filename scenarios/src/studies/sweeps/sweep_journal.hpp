#pragma once
#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Returns a fingerprint of everything that the answer to a scenario depends on. This includes the program itself: a
/// new build must not reuse the answers of an old one.
std::string answer_key(const Scenario&);
/// Returns the key of a scenario that differs only in its document from one whose key is `base_key`.
std::string answer_key(const std::string& base_key, const Node& document);

/// Adds a checksum to a line: as the first field "check" of a JSON object, else before the line.
std::string seal_line(const std::string& line);
/// Removes the checksum from a sealed line. Throws UserError with file and line if the line was changed.
std::string unseal_line(const std::string& line, const std::filesystem::path& file, std::size_t number);

/// Answers by key in a file. Each answer is a line, written at once, so that an interrupted job can resume. An
/// incomplete last line (the job was killed while writing it) is removed.
class Journal {
 public:
  /// Opens the file and reads its keys. An empty path stores nothing. Throws UserError if the file cannot be read or
  /// written, is a symbolic link, or has a changed line.
  explicit Journal(std::filesystem::path);
  ~Journal();  ///< removes the file if it has no line
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  bool empty() const { return entries_.empty(); }  ///< the file had no lines when it was opened
  /// Returns the text of the last line with this key. It is read from the file, so that memory does not limit a
  /// journal.
  std::optional<std::string> find(const std::string& key) const;
  /// Appends a line. `text` has no line break. Throws UserError if the disk is full.
  void add(const std::string& key, const std::string& text);

 private:
  std::filesystem::path path_;
  int file_ = -1;
  struct Entry {
    std::size_t hash;  ///< hash of the key
    std::streamoff offset;
    std::size_t line;  ///< line number from 1
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<Entry> entries_;  ///< sorted
  mutable std::ifstream in_;

  off_t read_keys();
};

}  // namespace trainyard
