#pragma once
#include <filesystem>
#include <string>

namespace trainyard {

/// A folder for what a command reads and writes. It goes with all that is in it. Throws UserError.
class AnswerFolder {
 public:
  AnswerFolder();
  ~AnswerFolder();
  AnswerFolder(const AnswerFolder&) = delete;
  AnswerFolder& operator=(const AnswerFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string text(const std::string& name) const;  ///< "" where there is no such file

 private:
  std::filesystem::path path_;
};

}  // namespace trainyard
