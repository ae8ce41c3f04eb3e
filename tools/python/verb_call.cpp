#include "tools/python/verb_call.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/reading/document_text.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "sim/process/terminal.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// From now on what goes to a standard file is kept.
class CaughtOutput {
 public:
  explicit CaughtOutput(std::FILE* stream) : stream_(stream), kept_(::memfd_create("output", MFD_CLOEXEC)) {
    std::fflush(stream_);
    if (kept_ < 0 || ::dup2(kept_, ::fileno(stream_)) < 0)
      throw InternalError(std::string("cannot keep what is printed: ") + std::strerror(errno));
  }
  std::string text() const {
    std::fflush(stream_);
    const off_t size = ::lseek(kept_, 0, SEEK_END);
    std::string all(static_cast<std::size_t>(std::max<off_t>(0, size)), '\0');
    for (std::size_t at = 0; at < all.size();) {
      const ssize_t n = ::pread(kept_, all.data() + at, all.size() - at, static_cast<off_t>(at));
      if (n <= 0) throw InternalError("what is printed cannot be read");
      at += static_cast<std::size_t>(n);
    }
    return all;
  }

 private:
  std::FILE* stream_;
  int kept_;
};

void unquote(Node& node) {
  node.quoted = false;
  for (Node& item : node.items) unquote(item);
  for (auto& [key, field] : node.fields) unquote(field);
}

/// The text that a file of it would hold.
std::string scenario_text(const std::string& json, const std::string& path) {
  Node document = parse_document(json, path);
  unquote(document);
  return yaml_text(document);
}

int run_question(const nlohmann::json& question) {
  std::error_code failed;
  std::filesystem::current_path(question.at("folder").get<std::string>(), failed);
  ::clearenv();
  for (const auto& [name, value] : question.at("environment").items())
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  try {
    for (const auto& [path, json] : question.at("documents").items()) stand_in_for(path, scenario_text(json, path));
  } catch (const UserError& e) {
    complain(e.what());
    return kBadInput;
  }
  return run_command(question.at("words"));
}

}  // namespace

std::string answer_call(const std::string& question, const std::function<void(const std::string&)>& note) {
  const CaughtOutput output(stdout), complaint(stderr);
  tell_progress_to(note);
  const int code = run_question(parse_json(question));
  return json_text(nlohmann::json{{"code", code}, {"output", output.text()}, {"complaint", complaint.text()}});
}

}  // namespace trainyard
