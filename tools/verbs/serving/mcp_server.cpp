#include "tools/verbs/serving/mcp_server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "models/hardware/kernel_shapes.hpp"
#include "models/reading/program_version.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

constexpr const char* kProtocol = "2025-06-18";
// Error codes of JSON-RPC 2.0, section 5.1.
constexpr int kParseError = -32700, kInvalidRequest = -32600, kNoMethod = -32601, kInvalidParams = -32602;
/// Deeper messages are refused. A scenario has at most ten levels.
constexpr int kMostLevels = 64;

/// Returns the number of levels of lists and objects in a JSON text.
int levels_of(const std::string& text) {
  int level = 0, most = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{'))
      most = std::max(most, ++level);
    else if (!quoted && (c == ']' || c == '}'))
      --level;
  }
  return most;
}

/// Returns an answer with the `kMostPieces` longest pieces of its critical path, because an assistant reads it whole.
std::string shorten_path(const std::string& text) {
  constexpr std::size_t kMostPieces = 12;
  if (text.find("\"critical_path\"") == std::string::npos) return text;
  ServedJson answer = parse_ordered_json(text);
  const auto path = answer.find("critical_path");
  if (path == answer.end() || !path->is_array() || path->size() <= kMostPieces) return text;
  std::vector<std::pair<double, std::size_t>> pieces;  // length and place of each
  for (std::size_t i = 0; i < path->size(); ++i)
    pieces.emplace_back((*path)[i].at("begin_s").get<double>() - (*path)[i].at("end_s").get<double>(), i);
  std::nth_element(pieces.begin(), pieces.begin() + kMostPieces, pieces.end());
  std::set<std::size_t> longest;
  for (std::size_t i = 0; i < kMostPieces; ++i) longest.insert(pieces[i].second);
  ServedJson shown = ServedJson::array();
  for (const std::size_t i : longest) shown.push_back((*path)[i]);
  answer["critical_path_pieces"] = path->size();
  answer["critical_path"] = std::move(shown);
  return json_text(answer);
}

ServedJson tool_result(const std::string& text, bool is_error) {
  return {{"content", ServedJson::array({{{"type", "text"}, {"text", text}}})}, {"isError", is_error}};
}

ServedJson server_description() {
  return {{"protocolVersion", kProtocol},
          {"capabilities", {{"tools", {{"listChanged", false}}}}},
          {"serverInfo", {{"name", "trainyard"}, {"title", "Trainyard"}, {"version", program_version()}}},
          {"instructions",
           "Trainyard simulates distributed training: how long a step takes, what limits it, whether it fits, what it "
           "costs. `list` names hardware, models and ready scenarios; `run` simulates a scenario, `plan` finds its "
           "fastest plan, `size` the cluster for a deadline, `fleet` that for a year of trainings, `explain` the "
           "reason of a step time; `compare` sets scenarios side by side, and `validate` compares the simulator with "
           "measurements. Every figure is simulated, with its sources in the answer."}};
}

}  // namespace

void McpServer::answer(const ServedJson& id, const ServedJson& result) {
  send_(json_text(ServedJson{{"jsonrpc", "2.0"}, {"id", id}, {"result", result}}));
}

void McpServer::refuse(const ServedJson& id, int code, const std::string& message) {
  send_(json_text(ServedJson{{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}}));
}

void McpServer::take(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  if (levels_of(line) > kMostLevels)
    return refuse(nullptr, kInvalidRequest, fmt::format("more than {} levels of lists and objects", kMostLevels));
  ServedJson message;
  try {
    message = parse_ordered_json(line);
  } catch (const std::exception&) {
    return refuse(nullptr, kParseError, "the line is no JSON");
  }
  if (!message.is_object()) return refuse(nullptr, kInvalidRequest, "an object expected, one message a line");
  if (!message.contains("method") && (message.contains("result") || message.contains("error"))) return;
  const ServedJson id = message.value("id", ServedJson());
  const bool has_good_id = id.is_string() || id.is_number_integer();
  if (message.contains("id") && !has_good_id)
    return refuse(nullptr, kInvalidRequest, "id: text or a whole number expected");
  if (message.value("jsonrpc", ServedJson()) != "2.0") return refuse(id, kInvalidRequest, "jsonrpc: \"2.0\" expected");
  if (!message.value("method", ServedJson()).is_string()) return refuse(id, kInvalidRequest, "method: text expected");
  if (message.contains("id"))
    take_request(message);
  else
    take_notification(message);
}

void McpServer::take_request(const ServedJson& message) {
  const ServedJson& id = message.at("id");
  const std::string method = message.at("method").get<std::string>();
  const ServedJson params = message.value("params", ServedJson::object());
  if (!params.is_object()) return refuse(id, kInvalidParams, "params: an object expected");
  if (method == "initialize") return answer(id, server_description());
  if (method == "ping") return answer(id, ServedJson::object());
  if (method == "tools/list") return answer(id, {{"tools", served_tools()}});
  if (method == "tools/call") return take_call(id, params);
  refuse(id, kNoMethod, fmt::format("no method {}; there are initialize, ping, tools/list and tools/call", method));
}

void McpServer::take_call(const ServedJson& id, const ServedJson& params) {
  const ServedJson name = params.value("name", ServedJson());
  if (!name.is_string() || !is_served(name.get<std::string>()))
    return refuse(id, kInvalidParams, fmt::format("unknown tool {}", json_text(name)));
  const ServedJson arguments = params.value("arguments", ServedJson::object()),
                   meta = params.value("_meta", ServedJson::object());
  if (!arguments.is_object()) return refuse(id, kInvalidParams, "arguments: an object expected");
  const ServedJson token = meta.is_object() ? meta.value("progressToken", ServedJson()) : ServedJson();
  waiting_.push_back({id, token, [verb = name.get<std::string>(), arguments] {
                        const ShapeScope shapes;
                        return shorten_path(served_answer(verb, arguments));
                      }});
}

void McpServer::take_notification(const ServedJson& message) {
  if (message.at("method") != "notifications/cancelled") return;
  const ServedJson params = message.value("params", ServedJson::object());
  const ServedJson id = params.is_object() ? params.value("requestId", ServedJson()) : ServedJson();
  std::erase_if(waiting_, [&id](const Call& call) { return call.id == id; });
  if (!call_ || call_->id != id) return;
  running_.reset();  // stops the work; a cancelled call has no answer
  call_.reset();
}

void McpServer::send_progress() {
  for (const std::string& line : running_->take_progress())
    if (!call_->progress_token.is_null())
      send_(json_text(ServedJson{
          {"jsonrpc", "2.0"},
          {"method", "notifications/progress"},
          {"params", {{"progressToken", call_->progress_token}, {"progress", ++call_->progress}, {"message", line}}}}));
}

void McpServer::advance(std::chrono::milliseconds time) {
  if (!running_) {
    if (waiting_.empty()) return;
    call_ = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = std::make_unique<BackgroundCall>(call_->work);
  }
  const bool is_over = running_->over_within(time);
  send_progress();
  if (!is_over) return;
  ServedJson result;
  try {
    result = tool_result(running_->answer(), false);
  } catch (const std::bad_alloc&) {
    result = tool_result("not enough memory for this run", true);
  } catch (const std::exception& e) {
    result = tool_result(e.what(), true);
  }
  answer(call_->id, result);
  running_.reset();
  call_.reset();
}

std::optional<std::string> InputLines::next(std::chrono::milliseconds time) {
  const auto take_line = [this]() -> std::optional<std::string> {
    const std::size_t end = text_.find('\n');
    if (end == std::string::npos && !(ended_ && !text_.empty())) return std::nullopt;
    std::string line = text_.substr(0, end);
    text_.erase(0, end == std::string::npos ? end : end + 1);
    return line;
  };
  if (auto line = take_line()) return line;
  if (ended_) return std::nullopt;
  struct pollfd input = {descriptor_, POLLIN, 0};
  if (::poll(&input, 1, static_cast<int>(time.count())) <= 0) return std::nullopt;
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(descriptor_, buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return std::nullopt;
  if (count <= 0)
    ended_ = true;
  else
    text_.append(buffer.data(), static_cast<std::size_t>(count));
  return take_line();
}

}  // namespace trainyard
