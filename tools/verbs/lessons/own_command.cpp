#include "tools/verbs/lessons/own_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "models/reading/shipped_files.hpp"
#include "sim/error.hpp"
#include "sim/process/child.hpp"
#include "tools/verbs/lessons/answer_folder.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  char quote = 0;
  bool inside = false;
  for (const char c : line) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? '\0' : c;
      if (!inside) words.emplace_back();
      inside = true;
    } else if (c == ' ' && quote == 0) {
      inside = false;
    } else {
      if (!inside) words.emplace_back();
      inside = true;
      words.back() += c;
    }
  }
  return words;
}

}  // namespace

CommandAnswer answer_of(const std::string& command, const std::string& picture) {
  const AnswerFolder folder;
  std::vector<std::string> words = words_of(command);
  words.insert(words.end(), {"--json", folder.file("json")});
  if (!picture.empty()) words.insert(words.end(), {"--" + picture, folder.file("picture")});
  in_child([&] {
    fs::current_path(shipped_file(""));
    const int screen = ::open(folder.file("screen").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (screen < 0 || ::dup2(screen, STDOUT_FILENO) < 0) throw InternalError("cannot catch what a command prints");
    Place place;
    place.file = std::make_shared<const std::string>(command);
    const int code = verbs().find(words.front(), place).run({words.begin() + 1, words.end()});
    std::fflush(stdout);
    if (code != kGood && code != kFailsLimit) throw UserError(fmt::format("{}: ended with code {}", command, code));
    return std::string();
  });
  return {folder.text("screen"), folder.text("json"), folder.text("picture")};
}

}  // namespace trainyard
