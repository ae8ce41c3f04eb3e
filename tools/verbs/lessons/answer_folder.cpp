#include "tools/verbs/lessons/answer_folder.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>

#include "sim/error.hpp"

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

}  // namespace trainyard
