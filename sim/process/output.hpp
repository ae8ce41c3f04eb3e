#pragma once
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

/// A file that is written piece by piece, and is there once it is whole: a temporary one, without a name where the file
/// system can, takes its place at the end. A pipe or device has no "before" to keep, and gets the pieces as they come. All
/// throw UserError naming the path.
class AtomicOutput {
 public:
  explicit AtomicOutput(std::filesystem::path);
  ~AtomicOutput();  ///< what was not committed is gone
  AtomicOutput(const AtomicOutput&) = delete;
  AtomicOutput& operator=(const AtomicOutput&) = delete;
  void add(std::string_view text);
  /// The file that has what was added up to now, until `commit`.
  std::filesystem::path flushed();
  void commit();

 private:
  std::filesystem::path path_, target_;  ///< no target: the temporary file has no name
  std::FILE* file_ = nullptr;
  int open_target();
  void drop();
  [[noreturn]] void fail(int error);
  bool special() const { return target_ == path_; }
};

/// Writes the whole file, or leaves the old one untouched. "-" is stdout. Throws UserError naming the path.
void write_atomically(const std::filesystem::path&, std::string_view text);
/// Throws UserError if `write_atomically` could not work there (no such folder, a folder itself, no permission).
void check_writable(const std::filesystem::path&);

/// So many random bytes, as hexadecimal digits: what nobody can foresee. Throws InternalError.
std::string random_digits(std::size_t bytes);

/// The files that a command will write, by the words that errors have for them ("--json"): as long as this lives, none
/// of them can be read.
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

/// To be called for every file before it is read. Throws UserError where a command plans to write it.
void check_input(const std::filesystem::path&);

/// Opens what a shell has closed of stdin, stdout and stderr, so that no file of ours takes their numbers: reading from
/// it and writing to stdout then fail, what goes to stderr is lost. A write beyond the limit of a file's size
/// (`ulimit -f`) is an error from then on, and no longer the end of the process.
void prepare_standard_files();
/// Prints to stdout. Throws UserError where that cannot be written.
void print(std::string_view text);
/// Throws UserError where something that was printed did not get to stdout (a full disk, a closed file).
void check_printed();
/// Prints a line to stderr; where that is not possible, nothing.
void complain(std::string_view line);

/// As long as it lives, what this thread prints is kept here, and what it complains of is dropped.
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
/// Is what this thread prints kept instead?
bool output_is_caught();

}  // namespace trainyard
