#pragma once
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

/// A file that is written piece by piece and appears only when it is complete: a temporary file, without a name if the
/// file system supports that, replaces it at the end. A pipe or device has no earlier content to preserve and receives
/// the pieces as they come. All functions throw UserError, which names the path.
class AtomicOutput {
 public:
  explicit AtomicOutput(std::filesystem::path);
  ~AtomicOutput();  ///< discards everything if it was not committed
  AtomicOutput(const AtomicOutput&) = delete;
  AtomicOutput& operator=(const AtomicOutput&) = delete;
  void add(std::string_view text);
  /// A file with everything added so far. It exists until `commit`.
  std::filesystem::path flush();
  void commit();

 private:
  std::filesystem::path path_, target_;  ///< no target: the temporary file has no name
  std::FILE* file_ = nullptr;
  int open_target();
  void drop();
  [[noreturn]] void fail(int error);
  bool special() const { return target_ == path_; }
};

/// Writes the complete file, or leaves the old one untouched. "-" is stdout. Throws UserError, which names the path.
void write_atomically(const std::filesystem::path&, std::string_view text);
/// Throws UserError if `write_atomically` could not write there (no such folder, a folder itself, no permission).
void check_writable(const std::filesystem::path&);

/// `bytes` unpredictable random bytes, as hexadecimal digits. Throws InternalError.
std::string random_digits(std::size_t bytes);

/// The files that a command will write, with the words that errors use for them ("--json"). While it lives, none of
/// these files can be read.
class PlannedOutputs {
 public:
  PlannedOutputs();
  ~PlannedOutputs();
  PlannedOutputs(const PlannedOutputs&) = delete;
  PlannedOutputs& operator=(const PlannedOutputs&) = delete;
  void add(std::string words, std::filesystem::path file);

 private:
  friend void check_input(const std::filesystem::path&);
  std::vector<std::pair<std::string, std::filesystem::path>> files_;
};

/// Call it for every file before it is read. Throws UserError if a command plans to write the file.
void check_input(const std::filesystem::path&);

/// Returns "PATH: cannot be read: " and the reason, which may be that it is a folder.
std::string unreadable(const std::filesystem::path&);

/// Returns all bytes of a file. Throws UserError with the words of `unreadable`.
std::string read_file(const std::filesystem::path&);

/// Opens those of stdin, stdout and stderr that the shell has closed, so that none of our files takes their numbers.
/// Reading from stdin and writing to stdout then fail; output to stderr is lost. Afterwards, a write beyond the limit
/// of a file's size (`ulimit -f`) is an error and no longer ends the process.
void prepare_standard_files();
/// Prints to stdout. Throws UserError if stdout cannot be written.
void print(std::string_view text);
/// Throws UserError if printed text did not reach stdout (a full disk, a closed file).
void check_printed();
/// Prints a line to stderr. Does nothing if that is impossible.
void complain(std::string_view line);

/// While it lives, this thread's prints are stored here, and its complaints are dropped.
class CaughtOutput {
 public:
  CaughtOutput();
  ~CaughtOutput();
  CaughtOutput(const CaughtOutput&) = delete;
  CaughtOutput& operator=(const CaughtOutput&) = delete;
  std::string text;

 private:
  CaughtOutput* outer_;
};
/// Returns true if this thread's prints are stored in a CaughtOutput.
bool output_is_caught();

}  // namespace trainyard
