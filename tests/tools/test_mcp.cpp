// `trainyard serve --mcp`: the Model Context Protocol over standard input and output.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/verbs/serving/mcp_server.hpp"
#include "tools/verbs/verbs.hpp"

namespace tools_test_mcp {

using namespace trainyard;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

/// Sends these lines to a server, waits for its calls, and returns its messages.
std::vector<json> messages_of(const std::vector<std::string>& lines) {
  std::vector<json> messages;
  McpServer server([&messages](const std::string& line) {
    CHECK(line.find('\n') == std::string::npos);
    messages.push_back(parse_json(line));
    CHECK(messages.back().at("jsonrpc") == "2.0");
  });
  for (const std::string& line : lines) server.take(line);
  while (server.is_busy()) server.advance(std::chrono::milliseconds(20));
  return messages;
}

json message_of(const std::string& line) {
  const std::vector<json> messages = messages_of({line});
  REQUIRE(messages.size() == 1);
  return messages.front();
}

std::string request(int id, const std::string& method, const json& params = json::object()) {
  return json{{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}}.dump();
}

std::string call(int id, const std::string& tool, const json& arguments) {
  return request(id, "tools/call", {{"name", tool}, {"arguments", arguments}});
}

/// The text of a tool's result.
std::string text_of(const json& message, bool is_error) {
  INFO(message.dump());
  REQUIRE(message.contains("result"));
  CHECK(message.at("result").at("isError") == is_error);
  return message.at("result").at("content").at(0).at("text").get<std::string>();
}

const json kScenario{{"cluster", {{"nodes", 1}, {"node", {{"base", "dgx-a100"}, {"gpu", {{"count", 1}}}}}}},
                     {"model", "gpt2"},
                     {"plan", {{"global_batch_size", 4}, {"micro_batch_size", 4}}},
                     {"software", "pytorch-ddp"}};

}  // namespace

TEST_CASE("a client of the protocol is greeted, and its notifications have no answer", "[mcp]") {
  const std::vector<json> messages = messages_of(
      {request(1, "initialize",
               {{"protocolVersion", "2025-06-18"}, {"capabilities", json::object()}, {"clientInfo", {{"name", "x"}}}}),
       R"({"jsonrpc":"2.0","method":"notifications/initialized"})", "", request(2, "ping")});
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].at("id") == 1);
  CHECK(messages[0].at("result").at("protocolVersion") == "2025-06-18");
  CHECK(messages[0].at("result").at("serverInfo").at("name") == "trainyard");
  CHECK(messages[0].at("result").at("capabilities").contains("tools"));
  CHECK(messages[1].at("id") == 2);
  CHECK(messages[1].at("result") == json::object());
}

TEST_CASE("the tools have the flags and texts of --help, without those that write files", "[mcp]") {
  const json tools = message_of(request(1, "tools/list")).at("result").at("tools");
  std::set<std::string> names;
  for (const json& tool : tools) {
    const std::string name = tool.at("name");
    CAPTURE(name);
    names.insert(name);
    CHECK(tool.at("title") == verbs().find(name, {}).summary);
    CHECK(tool.at("inputSchema").at("type") == "object");
    const std::string help = test::TopoFolder().trainyard(name + " --help").out;
    std::string letters_of_help, description = tool.at("description");
    for (const char c : help)
      if (c != ' ' && c != '\n') letters_of_help += c;
    std::erase(description, ' ');
    CHECK(letters_of_help.find(description) != std::string::npos);
    for (const auto& [property, schema] : tool.at("inputSchema").at("properties").items()) {
      CAPTURE(property);
      CHECK_FALSE(schema.at("description").get<std::string>().empty());
      CHECK(std::set<std::string>{"json", "html", "svg", "csv", "write", "out", "trace", "chakra", "slurm"}.count(
                property) == 0);
    }
  }
  for (const char* name : {"run", "plan", "size", "fleet", "explain", "compare", "list", "validate"})
    CHECK(names.count(name) == 1);
  for (const json& tool : tools)
    if (tool.at("name") == "bench") CHECK(tool.at("inputSchema").at("properties").contains("minbytes"));
  std::set<std::string> takes_object;
  for (const json& tool : tools)
    for (const auto& [property, schema] : tool.at("inputSchema").at("properties").items())
      if (schema.contains("type") && schema.at("type") == json{"string", "object"})
        takes_object.insert(tool.at("name"));
  CHECK(takes_object == std::set<std::string>{"run", "plan", "size", "sweep"});
  for (const json& tool : tools)
    if (tool.at("name") == "run") {
      CHECK(tool.at("inputSchema").at("required") == json{"scenario"});
      CHECK(tool.at("inputSchema").at("properties").at("set").at("type") == "array");
      CHECK(tool.at("inputSchema").at("properties").at("no_what_if").at("type") == "boolean");
    }
}

TEST_CASE("a tool gives the answer of its verb, for a file or for an object", "[mcp]") {
  const test::TopoFolder shell;
  const std::string file = shell.write("scenario.yaml", kScenario.dump(1)).string();
  const json expected = parse_json(shell.trainyard("run scenario.yaml --no-what-if --json -").out);
  const std::vector<json> messages = messages_of(
      {call(1, "run", {{"scenario", file}, {"no_what_if", true}}),
       call(2, "run", {{"scenario", kScenario}, {"no_what_if", true}}),
       call(3, "run", {{"scenario", kScenario}, {"no_what_if", true}, {"set", {"plan.micro_batch_size=2"}}}),
       call(4, "list", {{"kind", "gpus"}}), call(5, "explain", {{"scenario", file}}),
       call(6, "compare", {{"scenarios", {file, file}}}),
       call(7, "run", {{"scenario", kScenario.dump(1)}, {"no_what_if", true}}),
       call(8, "size",
            {{"model", "gpt2"},
             {"tokens", "1B"},
             {"days", 10},
             {"gpus", 8},
             {"work", "50K"},
             {"nodes_of", {"dgx-a100", "dgx-h100"}}})});
  REQUIRE(messages.size() == 8);
  CHECK(parse_json(text_of(messages[6], false)).at("step_time_s") == expected.at("step_time_s"));
  CHECK(parse_json(text_of(messages[7], false)).at("rows").size() == 2);
  CHECK(parse_json(text_of(messages[5], false)).contains("changes"));
  for (const int i : {0, 1}) {
    const json answer = parse_json(text_of(messages[static_cast<std::size_t>(i)], false));
    CHECK(answer.at("step_time_s") == expected.at("step_time_s"));
    CHECK(answer.at("memory_bytes") == expected.at("memory_bytes"));
  }
  CHECK(parse_json(text_of(messages[2], false)).at("step_time_s") > expected.at("step_time_s"));
  CHECK(parse_json(text_of(messages[3], false)).at("gpus").size() > 10);
  const json why = parse_json(text_of(messages[4], false));
  CHECK(why.contains("what_if"));
  CHECK(why.at("critical_path").size() == 12);
  CHECK(why.at("critical_path_pieces") > 12);
}

TEST_CASE("bad arguments of a tool are results that say what was expected", "[mcp]") {
  CHECK_THAT(text_of(message_of(call(1, "run", {{"scenari", "x"}})), true), Contains("did you mean \"scenario\"?"));
  CHECK_THAT(text_of(message_of(call(1, "run", json::object())), true), Contains("scenario expected"));
  CHECK_THAT(text_of(message_of(call(1, "run", {{"scenario", "nowhere.yaml"}})), true), Contains("nowhere.yaml"));
  json misspelt = kScenario;
  misspelt["cluster"]["nods"] = 1;
  misspelt["cluster"].erase("nodes");
  CHECK_THAT(text_of(message_of(call(1, "run", {{"scenario", misspelt}})), true),
             Contains("scenario: cluster.nods: ") && Contains("did you mean \"nodes\"?"));
  CHECK_THAT(text_of(message_of(call(1, "run", {{"scenario", {1, 2}}})), true), Contains("a text or a number"));
  CHECK_THAT(text_of(message_of(call(1, "run", {{"scenario", "x"}, {"json", "/tmp/x"}})), true),
             Contains("unknown argument"));
  CHECK_THAT(text_of(message_of(call(1, "list", {{"kind", "--json=/tmp/x"}})), true), Contains("a name or a path"));
  CHECK_THAT(text_of(message_of(call(1, "validate", {{"set", "kernel"}})), true), Contains("kernels"));
  CHECK_THAT(text_of(message_of(call(1, "size", {{"days", "soon"}, {"model", "gpt2"}})), true), Contains("--days"));
  CHECK(message_of(call(1, "serve", json::object())).at("error").at("code") == -32602);
}

TEST_CASE("bad messages have an error each, and the server goes on", "[mcp]") {
  const std::vector<std::pair<std::string, int>> bad{
      {"{", -32700},
      {"\xff", -32700},
      {"[]", -32600},
      {"1", -32600},
      {std::string(100000, '['), -32600},
      {R"({"jsonrpc":"2.0","id":null,"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":{},"method":"ping"})", -32600},
      {R"({"jsonrpc":"1.0","id":1,"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":1})", -32600},
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})", -32602},
      {R"({"jsonrpc":"2.0","id":1,"method":"pong"})", -32601},
      {R"({"jsonrpc":"2.0","id":1,"method":"tools/call"})", -32602}};
  for (const auto& [line, code] : bad) {
    CAPTURE(line.substr(0, 80));
    const std::vector<json> messages = messages_of({line, request(7, "ping")});
    REQUIRE(messages.size() == 2);
    CHECK(messages[0].at("error").at("code") == code);
    CHECK_FALSE(messages[0].at("error").at("message").get<std::string>().empty());
    CHECK(messages[1].at("id") == 7);
  }
  CHECK(messages_of({R"({"jsonrpc":"2.0","id":1,"result":{}})", R"({"jsonrpc":"2.0","method":"other"})"}).empty());
}

TEST_CASE("a call can be cancelled while it waits, and reports progress if the client asks for it", "[mcp]") {
  const std::string cancel =
      R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"enough"}})";
  const std::vector<json> messages =
      messages_of({call(1, "list", {{"kind", "gpus"}}), call(2, "list", {{"kind", "nodes"}}), cancel});
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].at("id") == 1);
  const json sweep{{"name", "sweep"},
                   {"arguments", {{"scenario", kScenario}, {"set", {"plan.micro_batch_size=1,2,4"}}}},
                   {"_meta", {{"progressToken", "p"}}}};
  const std::vector<json> reported = messages_of({request(3, "tools/call", sweep)});
  REQUIRE(reported.size() > 1);
  CHECK(reported.front().at("method") == "notifications/progress");
  CHECK(reported.front().at("params").at("progressToken") == "p");
  CHECK(parse_json(text_of(reported.back(), false)).at("points").size() == 3);
}

TEST_CASE("lines of an input come as they are written, and the last needs no end", "[mcp]") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  InputLines lines(pipe[0]);
  using std::chrono::milliseconds;
  CHECK_FALSE(lines.next(milliseconds(0)));
  REQUIRE(::write(pipe[1], "one\ntwo\nth", 10) == 10);
  CHECK(lines.next(milliseconds(-1)) == "one");
  CHECK(lines.next(milliseconds(-1)) == "two");
  CHECK_FALSE(lines.next(milliseconds(0)));
  CHECK_FALSE(lines.is_over());
  REQUIRE(::write(pipe[1], "ree", 3) == 3);
  ::close(pipe[1]);
  std::optional<std::string> last;
  while (!last && !lines.is_over()) last = lines.next(milliseconds(-1));
  CHECK(last == "three");
  CHECK_FALSE(lines.next(milliseconds(0)));
  CHECK(lines.is_over());
  ::close(pipe[0]);
}

TEST_CASE("serve --mcp answers every line of a pipe and ends with it", "[mcp][serve]") {
  const test::TopoFolder shell;
  shell.write(
      "in", request(1, "initialize") + "\nno JSON\n" + call(2, "list", {{"kind", "gpus"}}) + "\n" + request(3, "ping"));
  const std::string line =
      "cd '" + shell.path().string() + "' && cat in | '" TRAINYARD_BINARY "' serve --mcp >.out 2>.err";
  CHECK(std::system(line.c_str()) == 0);
  CHECK(shell.text(".err").empty());
  std::istringstream out(shell.text(".out"));
  std::set<std::string> ids;
  for (std::string text; std::getline(out, text);) ids.insert(parse_json(text).at("id").dump());
  CHECK(ids == std::set<std::string>{"1", "2", "3", "null"});
  CHECK_THAT(shell.trainyard("serve gpt2-one-a100 --mcp").err, Contains("--mcp takes no scenario"));
}

}  // namespace tools_test_mcp
