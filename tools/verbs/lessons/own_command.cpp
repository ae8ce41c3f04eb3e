#include "tools/verbs/lessons/own_command.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "models/reading/shipped_files.hpp"
#include "sim/error.hpp"
#include "sim/process/job.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

AnswerFolder::AnswerFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "trainyard-answer-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw UserError(fmt::format("cannot make a folder in {}", name));
  path_ = name;
}

AnswerFolder::~AnswerFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string AnswerFolder::text(const std::string& name) const {
  std::ifstream in(path_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

namespace {

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
  for (std::string& word : words)
    if (word.starts_with("scenarios/")) word = shipped_file(word).string();
  words.insert(words.end(), {"--json", folder.file("json")});
  if (!picture.empty()) words.insert(words.end(), {"--" + picture, folder.file("picture")});
  const CaughtOutput screen;
  const int code = verbs().find(words.front(), Place::named(command)).run({words.begin() + 1, words.end()});
  if (code == kInterrupted) throw Interruption();
  if (code != kGood && code != kFailsLimit) throw UserError(fmt::format("{}: ended with code {}", command, code));
  return {screen.text, folder.text("json"), folder.text("picture")};
}

}  // namespace trainyard
