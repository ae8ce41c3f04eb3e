#pragma once
#include <filesystem>
#include <set>
#include <string>

namespace trainyard {

/// The names of the tasks that a student has solved, in a JSON file: {"solved": ["ring-for-master"]}.
class TaskProgress {
 public:
  /// `file`: the file that the user names; empty: the one in the user's state folder (XDG_STATE_HOME). The file need not
  /// exist. Throws UserError if it holds something else.
  explicit TaskProgress(std::filesystem::path file);

  bool is_solved(const std::string& task) const { return solved_.contains(task); }
  /// Adds the task and writes the file, unless the file has the task. If the file cannot be written, throws UserError if
  /// the user named it, and returns the reason otherwise. "": done.
  std::string record(const std::string& task);
  const std::filesystem::path& file() const { return file_; }  ///< empty: the user has no state folder

 private:
  std::filesystem::path file_;
  bool is_named_;
  std::set<std::string> solved_;
};

}  // namespace trainyard
