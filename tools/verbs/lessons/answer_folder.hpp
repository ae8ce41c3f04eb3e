#pragma once
#include <filesystem>
#include <string>

namespace trainyard {

/// A temporary folder for the files that a command reads and writes. The destructor removes it with its files. Throws
/// UserError.
class AnswerFolder {
 public:
  AnswerFolder();
  ~AnswerFolder();
  AnswerFolder(const AnswerFolder&) = delete;
  AnswerFolder& operator=(const AnswerFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string text(const std::string& name) const;  ///< contents of the file; "" if there is no such file

 private:
  std::filesystem::path path_;
};

}  // namespace trainyard
