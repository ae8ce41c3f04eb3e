#include "tools/verbs/lessons/task_progress.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::filesystem::path file_of_user() {
  std::string state = variable("XDG_STATE_HOME");
  if (!state.starts_with("/")) {  // the XDG specification ignores relative paths
    if (variable("HOME").empty()) return {};
    state = variable("HOME") + "/.local/state";
  }
  return std::filesystem::path(state) / "trainyard/progress.json";
}

std::set<std::string> solved_tasks(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return {};
  try {
    return nlohmann::json::parse(in).at("solved").get<std::set<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw UserError(fmt::format("{}: {{\"solved\": [names of tasks]}} expected", file.string()));
  }
}

}  // namespace

TaskProgress::TaskProgress(std::filesystem::path file)
    : file_(file.empty() ? file_of_user() : file), is_named_(!file.empty()), solved_(solved_tasks(file_)) {}

std::string TaskProgress::record(const std::string& task) {
  if (file_.empty()) return "there is no home folder";
  if (!solved_.insert(task).second) return "";
  try {
    std::error_code ignored;  // writing reports a folder that could not be made
    if (!is_named_) std::filesystem::create_directories(file_.parent_path(), ignored);
    write_atomically(file_, json_text(nlohmann::ordered_json{{"solved", solved_}}, 2) + "\n");
  } catch (const UserError& error) {
    if (is_named_) throw;
    return error.what();
  }
  return "";
}

}  // namespace trainyard
