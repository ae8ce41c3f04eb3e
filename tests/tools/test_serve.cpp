// `trainyard serve`: which requests are accepted, and their answers.
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <map>
#include <random>
#include <thread>

#include "models/reading/document_text.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/served_page.hpp"
#include "tools/serving/request_reader.hpp"
#include "tools/serving/served_task.hpp"

namespace tools_test_serve {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("only requests of the page itself are accepted", "[serve]") {
  const std::string token = random_token();
  CHECK(token.size() == 32);
  CHECK(random_token() != token);
  const RequestHead page{"GET", "/", "127.0.0.1:80", "", "none", "", token};
  const RequestHead good{"POST", "/ask", "localhost:80", "http://localhost:80", "same-origin", "application/json",
                         token};
  CHECK_FALSE(refusal_of(page, 80, token));
  CHECK_FALSE(refusal_of(good, 80, token));
  const auto status = [&](RequestHead head, auto change) {
    change(head);
    const std::optional<Refusal> refusal = refusal_of(head, 80, token);
    return refusal ? refusal->status : 200;
  };
  for (const RequestHead& head : {page, good}) {
    // Another name that resolves to the loopback, another port, a page of another origin.
    for (const char* host :
         {"evil.example:80", "127.0.0.1", "127.0.0.1:81", "", "127.0.0.1:80.evil.example", "[::1]:80"})
      CHECK(status(head, [host](RequestHead& h) { h.host = host; }) == 403);
    for (const char* origin : {"http://evil.example", "null", "http://127.0.0.1:81", "https://127.0.0.1:80"})
      CHECK(status(head, [origin](RequestHead& h) { h.origin = origin; }) == 403);
    for (const char* site : {"cross-site", "same-site", "anything"})
      CHECK(status(head, [site](RequestHead& h) { h.fetch_site = site; }) == 403);
  }
  CHECK(status(good, [](RequestHead& h) { h.fetch_site = "none"; }) == 403);
  for (const RequestHead& head : {page, good}) {
    CHECK(status(head, [](RequestHead& h) { h.token = ""; }) == 403);
    CHECK(status(head, [](RequestHead& h) { h.token.back() ^= 1; }) == 403);
    CHECK(status(head, [](RequestHead& h) { h.token += "0"; }) == 403);
  }
  CHECK(status(good, [](RequestHead& h) { h.content_type = "text/plain"; }) == 415);  // sent by other pages' forms
  CHECK(status(good, [](RequestHead& h) { h.method = "GET"; }) == 405);
  for (const char* path : {"/etc/passwd", "/../etc/passwd", "/ask/", "//", "/%2e%2e/x", "/index.html"})
    CHECK(status(page, [path](RequestHead& h) { h.path = path; }) == 404);
}

TEST_CASE("the page's questions get the answers of run, and bad ones the errors of the reader", "[serve][cli]") {
  const PageFolder folder;
  folder.write("secret.yaml", "password: hunter2\n");
  ServedProcess served(folder);
  const json plain = served.ask("[]");
  REQUIRE(plain.is_object());
  REQUIRE(folder.trainyard("run small.yaml --no-what-if --json p.json").exit == 0);
  CHECK(plain["answer"] == parse_json(folder.text("p.json")));
  std::map<std::string, json> controls;
  for (const json& control : plain["controls"]) controls[control["path"]] = control;
  for (const char* path : {"cluster.nodes", "plan.global_batch_size", "plan.micro_batch_size", "plan.tensor_parallel",
                           "plan.strategy", "cluster.hca.rate", "plan.data_parallel.zero_stage"}) {
    INFO(path);
    CHECK(controls.contains(path));
  }
  CHECK(controls["cluster.nodes"]["value"] == "2");
  CHECK(controls["plan.precision"]["choices"].size() > 2);

  const json changed = served.ask(R"([["cluster.nodes","1"],["plan.micro_batch_size","2"]])");
  REQUIRE(
      folder.trainyard("run small.yaml --no-what-if --set cluster.nodes=1 --set plan.micro_batch_size=2 --json p.json")
          .exit == 0);
  CHECK(changed["answer"]["step_time_s"] == parse_json(folder.text("p.json"))["step_time_s"]);
  folder.write("saved.yaml", served.ask(R"([["plan.micro_batch_size","2"]])", "scenario")["yaml"]);
  CHECK(folder.text("saved.yaml").find("micro_batch_size: 2") != std::string::npos);
  CHECK(folder.trainyard("run saved.yaml --no-what-if").exit == 0);
  CHECK_THAT(served.ask("[]", "report")["html"].get<std::string>(), Contains("</html>") && Contains("\"what_if\""));
  // The page asks for what faster resources save when it shows the answer.
  CHECK(plain["pending"] == true);
  REQUIRE(folder.trainyard("run small.yaml --json p.json").exit == 0);
  CHECK(served.ask("[]", "what_if")["what_if"] == parse_json(folder.text("p.json"))["what_if"]);

  const auto error = [&](const std::string& set, const std::string& scenario = "small") {
    return served.ask(set, "answer", scenario).value("error", "");
  };
  CHECK_THAT(error(R"([["plan.micro_batch_size","3"]])"), Contains("32 is not a multiple of 48"));
  CHECK_THAT(error(R"([["plan.recompute","slective"]])"), Contains("did you mean \"selective\"?"));
  CHECK_THAT(error(R"([["plan.micro_batch","3"]])"), Contains("did you mean \"plan.micro_batch_size\"?"));
  // No field accepts the name of a file, and only scenarios of the list are accepted.
  for (const char* field :
       {"model", "cluster.node", "cluster.hca", "software", "plan.micro_batch_size", "learn.data.csv"})
    for (const char* value : {"secret.yaml", "/etc/passwd", "../small.yaml", "1.yaml", "{config: secret.json}"}) {
      INFO(field << "=" << value);
      const std::string message = error(json::array({json::array({field, value})}).dump());
      CHECK_FALSE(message.empty());
      CHECK_THAT(message, !Contains("hunter2") && !Contains("no such file"));
    }
  for (const char* name : {"secret", "../small", "/etc/passwd", "small.yaml", ""})
    CHECK(error("[]", name) == "unknown scenario: choose one of the page's list");
  CHECK(served.stop() == 0);
}

TEST_CASE("with prices, answers of the page have the costs of run", "[serve][cli]") {
  const PageFolder folder;
  folder.write("p.yml", "currency: EUR\ngpu_hour: {a100-sxm4-80gb: 2, h100-sxm5-80gb: 3}\n");
  ServedProcess served(folder, "--prices=p.yml");
  const json answer = served.ask(R"([["plan.micro_batch_size","1"]])", "answer", "gpt2-one-a100")["answer"];
  const json run = trainyard::parse_json(
      folder.trainyard("run gpt2-one-a100 --set plan.micro_batch_size=1 --no-what-if --prices p.yml --json -").out);
  CHECK(answer.at("money").at("currency") == "EUR");
  CHECK(answer.at("money") == run.at("money"));
  const json dear = served.ask(R"([["prices.gpu_hour.a100-sxm4-80gb","4"]])", "answer", "gpt2-one-a100");
  CHECK(dear["answer"]["money"]["step"] ==
        trainyard::parse_json(
            folder
                .trainyard(
                    "run gpt2-one-a100 --set prices.gpu_hour.a100-sxm4-80gb=4 --no-what-if --prices p.yml --json -")
                .out)["money"]["step"]);
  CHECK(dear["controls"].dump().find("prices.gpu_hour.h100-sxm5-80gb") == std::string::npos);
  CHECK_THAT(served.page(), Contains("'undo'") && Contains("'pin this answer'"));
  CHECK(served.stop() == 0);
  folder.write("p.yml", "gpu_hour: {a100-sxm4-80gb: -2}\n");
  CHECK_THAT(folder.trainyard("serve --prices p.yml").err, Contains("p.yml:1:") && Contains("gpu_hour"));
  CHECK(folder.trainyard("serve --prices none.yml").exit == 2);
}

TEST_CASE("the page needs the token of its address, and a header that comes twice is refused", "[serve][cli]") {
  const PageFolder folder;
  ServedProcess served(folder);
  CHECK_THAT(served.page(), Contains(" 200 ") && Contains("\"token\":\"" + served.token + "\""));
  for (const std::string& path :
       {std::string("/"), std::string("/?token="), "/?token=" + served.token.substr(1), "/?tokens=" + served.token})
    CHECK_THAT(served.get(path), Contains(" 403 ") && Contains("the address that `trainyard serve` has printed") &&
                                     !Contains(served.token));
  CHECK_THAT(served.get("/", served.with_token()), Contains(" 403 "));
  const std::string host = "Host: 127.0.0.1:" + std::to_string(served.port) + "\r\n";
  for (const std::string& more :
       {host, std::string("Host: evil.example\r\n"), std::string("hOST : evil.example\r\n")}) {
    CHECK_THAT(served.page(more), Contains(" 400 ") && !Contains(served.token));
    CHECK_THAT(served.raw("GET /?token=" + served.token + " HTTP/1.1\r\n" + more + host + "\r\n"), Contains(" 400 "));
  }
  const std::string question = R"({"scenario":"small","set":[],"want":"scenario"})";
  for (const std::string& more : {std::string("Origin: null\r\nOrigin: http://127.0.0.1\r\n"), served.with_token(),
                                  std::string("Content-Length: 0\r\n"), std::string("Content-Type: text/plain\r\n")})
    CHECK_THAT(served.post(question, served.with_token() + more), Contains(" 400 "));
  CHECK_THAT(served.post(question, served.with_token() + "Transfer-Encoding: chunked\r\n"), Contains(" 411 "));
  CHECK_THAT(served.page("X: " + std::string(20000, 'x') + "\r\n"), Contains(" 431 "));
  CHECK(served.stop() == 0);
}

TEST_CASE("unfinished requests do not keep others waiting", "[serve]") {
  constexpr std::chrono::hours long_time{10};
  std::vector<int> ends;
  const auto connect_to = [&ends](RequestReader& reader, const std::string& text) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    REQUIRE(::send(pair[0], text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    reader.take(pair[1]);
    ends.push_back(pair[0]);
  };
  const auto got_from = [](int end) {
    std::string got;
    std::array<char, 4096> buffer{};
    for (ssize_t n = 0; (n = ::recv(end, buffer.data(), buffer.size(), 0)) > 0;)
      got.append(buffer.data(), static_cast<std::size_t>(n));
    return got;
  };
  const std::string begun = "POST /ask HTTP/1.1\r\nHost: x\r\n", length = "Content-Length: 5\r\n\r\n";
  std::promise<std::string> complete_request;
  {
    RequestReader::Limits limits;
    limits.time = long_time;
    limits.per_address = limits.connections;
    RequestReader reader(limits, [&complete_request](int socket, std::string request) {
      ::close(socket);
      complete_request.set_value(std::move(request));
    });
    for (int i = 0; i < 100; ++i) connect_to(reader, i % 2 == 0 ? begun : begun + length + "1234");
    connect_to(reader, begun + length + "12345");
    CHECK(complete_request.get_future().get() == begun + length + "12345");  // while all other requests are unfinished
    char byte = 0;
    for (std::size_t i = 0; i + 1 < ends.size(); ++i)
      CHECK((::recv(ends[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN));
  }
  for (const int end : ends) CHECK(got_from(end).empty());
  // If there are too many connections, the oldest is closed. A late request gets an error.
  RequestReader::Limits few;
  few.connections = 2;
  few.time = long_time;
  RequestReader crowded(few, [](int socket, const std::string&) { ::close(socket); });
  for (int i = 0; i < 3; ++i) connect_to(crowded, begun);
  CHECK(got_from(ends[ends.size() - 3]).empty());
  RequestReader::Limits short_time;
  short_time.time = std::chrono::milliseconds(0);
  RequestReader hasty(short_time, [](int socket, const std::string&) { ::close(socket); });
  connect_to(hasty, begun);
  CHECK_THAT(got_from(ends.back()), Catch::StartsWith("HTTP/1.1 408 "));
  for (const int end : ends) ::close(end);
}

TEST_CASE("an address with too many connections loses its own oldest, and no other address loses one", "[serve]") {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0);
  REQUIRE(::listen(listener, 64) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&here), &size) == 0);
  RequestReader::Limits limits;
  limits.connections = 12;
  limits.per_address = 4;
  limits.time = std::chrono::hours(10);
  std::promise<void> request_is_complete;
  RequestReader reader(limits, [&request_is_complete](int socket, const std::string&) {
    ::close(socket);
    request_is_complete.set_value();
  });
  /// Connects from 127.0.0.`last` with a request that never ends.
  const auto connect_from = [&](std::uint32_t last, const std::string& text) {
    const int end = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl((127U << 24) + last);
    REQUIRE(::bind(end, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
    REQUIRE(::connect(end, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0);
    REQUIRE(::send(end, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
    reader.take(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    return end;
  };
  const std::string begun = "GET / HTTP/1.1\r\n";
  const std::vector<int> quiet{connect_from(2, begun), connect_from(3, begun)};
  std::vector<int> many;
  for (int i = 0; i < 40; ++i) many.push_back(connect_from(4, begun));
  const int asks = connect_from(2, begun + "\r\n");
  request_is_complete.get_future().wait();  // now the reader has seen all earlier connections
  char byte = 0;
  for (const int end : quiet) CHECK((::recv(end, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN));
  for (std::size_t i = 0; i < many.size(); ++i) {
    INFO(i);
    if (i + limits.per_address < many.size())
      CHECK(::recv(many[i], &byte, 1, 0) <= 0);  // closed: recv returns the end or a reset
    else
      CHECK((::recv(many[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN));
  }
  for (const int end : many) ::close(end);
  for (const int end : quiet) ::close(end);
  ::close(asks);
  ::close(listener);
}

TEST_CASE("after another node is chosen, controls have that node's figures", "[serve][cli]") {
  const PageFolder folder;
  folder.write("small.yaml",
               "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\n"
               "plan: {global_batch_size: 32, micro_batch_size: 1, seq_length: 64}\n");
  const auto shown = [](const ServedProcess& served, const std::string& set, const std::string& scenario) {
    std::map<std::string, std::string> values;  // the values that the page's script shows
    const json answer = served.ask(set, "answer", scenario);
    REQUIRE(answer.contains("controls"));
    for (const json& control : answer["controls"])
      values[control["path"]] = control["value"] != "" ? control["value"] : control["fallback"];
    return values;
  };
  const ServedProcess served(folder);
  const std::map<std::string, std::string> before = shown(served, "[]", "small");
  for (const std::string node : {"dgx-h100", "dgx-b200"}) {
    std::map<std::string, std::string> changed = shown(served, R"([["cluster.node",")" + node + "\"]]", "small");
    // The scenario of the page, written with that node.
    folder.write(node + ".yaml", "cluster: {nodes: 2, node: " + node +
                                     ", fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\n"
                                     "plan: {global_batch_size: 32, micro_batch_size: 1, seq_length: 64}\n");
    CHECK(changed == shown(ServedProcess(folder, (node + ".yaml").c_str()), "[]", node));
    CHECK(changed["cluster.hca.rate"] != before.at("cluster.hca.rate"));
    CHECK(changed["cluster.gpu.nvlink"] != before.at("cluster.gpu.nvlink"));
  }
}

TEST_CASE("tasks on the page get the verdict of task --check, and allow the same changes", "[serve][cli]") {
  const PageFolder folder;
  ServedProcess served(folder, "--task=1");
  CHECK_THAT(served.page(), Contains("\"scenario\":\"task 1: ring-for-master\"") && !Contains("\"explanation\""));
  for (const NumberedFile& file : numbered_files("scenarios/tasks")) {
    const Task task = read_task(file);
    INFO(file.name);
    json set = json::array();
    for (const auto& [path, value] : task.solution) set.push_back({path, flow_text(value)});
    const std::string name = ServedTasks::name_of(task);
    CHECK(served.ask(set.dump(), "scenario", name).value("error", "") == "");  // the page accepts the solution
    CHECK_THAT(served.ask(R"([["plan.seq_length","7"]])", "scenario", name).value("error", ""),
               Contains("plan.seq_length: not among the fields of this page"));
    if (file.number % 20 != 1) continue;
    const json start = served.ask("[]", "answer", name), solved = served.ask(set.dump(), "answer", name);
    CHECK(start["verdict"]["solved"] == false);
    CHECK(start["verdict"]["explanation"].empty());
    CHECK_FALSE(start["briefing"].get<std::string>().empty());
    for (const json& control : start["controls"])
      CHECK(std::any_of(task.may_change.begin(), task.may_change.end(), [&](const std::string& key) {
        return control["path"] == key || control["path"].get<std::string>().starts_with(key + ".");
      }));
    REQUIRE(folder.trainyard("task " + std::to_string(file.number) + " --solution --to solved.yaml").exit == 0);
    REQUIRE(
        folder.trainyard("task " + std::to_string(file.number) + " --check solved.yaml --json v.json --record r.json")
            .exit == 0);
    CHECK(solved["verdict"] == parse_json(folder.text("v.json")));
  }
  const std::string first = "task 1: ring-for-master";
  for (const char* value : {"secret.yaml", "{config: secret.json}", "../small.yaml", "[/etc/passwd]"})
    CHECK_THAT(served.ask(json::array({json::array({"plan.data_parallel.all_reduce", value})}).dump(), "answer", first)
                   .value("error", ""),
               Contains("numbers with their units, and names, expected"));
  CHECK(served.stop() == 0);
  CHECK_THAT(folder.trainyard("serve --task nope").err, Contains("there is no task nope"));
  CHECK(folder.trainyard("serve small.yaml --task 1").exit == 2);
}

TEST_CASE("requests that are no questions of the page get no answer", "[serve][cli]") {
  const PageFolder folder;
  ServedProcess served(folder);
  CHECK_THAT(served.page(), Contains("Content-Security-Policy: default-src 'none'") && Contains("no-store"));
  CHECK_THAT(served.get("/../../etc/passwd"), Contains(" 404 ") && !Contains("root:"));
  CHECK_THAT(served.raw("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), Contains(" 403 "));
  CHECK_THAT(served.raw("GET / HTTP/1.1\r\n\r\n"), Contains(" 403 "));
  CHECK_THAT(served.page("Sec-Fetch-Site: cross-site\r\n"), Contains(" 403 "));
  const std::string question = R"({"scenario":"small","set":[],"want":"answer"})";
  CHECK_THAT(served.post(question), Contains(" 403 "));
  CHECK_THAT(served.post(question, "Origin: http://evil.example\r\n" + served.with_token()), Contains(" 403 "));
  CHECK_THAT(served.post(std::string(kMostOfRequest + 1, ' '), served.with_token()), Contains(" 413 "));
  CHECK_THAT(served.post("{", served.with_token()), Contains("a request with scenario, set and want expected"));
  CHECK_THAT(served.post("[1, 2]", served.with_token()), Contains("a request with scenario, set and want expected"));
  const std::string port = std::to_string(served.port);
  CHECK_THAT(folder.trainyard("serve --port " + port).err,
             Contains("--port " + port + ": another program uses this port"));
  CHECK(folder.trainyard("serve --port 70000").exit == 2);
  CHECK(folder.trainyard("serve nowhere.yaml").exit == 2);
}

namespace {

/// Sends `count` random requests, and does not wait for some of the answers. Adds the number of wrong answers to
/// `wrong`.
void ask_at_random(const ServedProcess& served, unsigned seed, int count, std::atomic<int>& wrong) {
  std::mt19937 random(seed);
  const auto one_of = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < count; ++i) {
    const std::string set = R"([["plan.global_batch_size",")" + std::to_string(8 * (1 + one_of(9))) +
                            R"("],["cluster.nodes",")" + std::to_string(1 + one_of(3)) + "\"]]";
    switch (one_of(8)) {
      case 0:
        wrong += served.page().starts_with("HTTP/1.1 200") ? 0 : 1;
        break;
      case 1:
        wrong += served.post("{}").starts_with("HTTP/1.1 403") ? 0 : 1;
        break;
      case 2:
        served.post(R"({"scenario":"small","set":)" + set + R"(,"want":"report"})", served.with_token(), false);
        break;
      case 3:
        wrong += served.get("/" + std::to_string(random())).starts_with("HTTP/1.1 404") ? 0 : 1;
        break;
      case 4:
        served.raw("POST /ask HTTP/1.1\r\nHost: x\r\nContent-Length: 10", false);
        break;
      default:
        const json answer = served.ask(set);
        wrong += answer.is_object() && (answer.contains("answer") || answer.contains("error")) ? 0 : 1;
    }
  }
}

std::string proc_text(pid_t process, const std::string& name) {
  return file_text("/proc/" + std::to_string(process) + "/" + name);
}
long resident_pages(pid_t process) {
  const std::string text = proc_text(process, "statm");
  return std::stol(text.substr(text.find(' ')));
}
std::ptrdiff_t open_files(pid_t process) {
  const std::filesystem::directory_iterator files("/proc/" + std::to_string(process) + "/fd");
  return std::distance(begin(files), end(files));
}

}  // namespace

TEST_CASE("simultaneous questions are all answered", "[serve]") {
  const PageFolder folder;
  ServedProcess served(folder);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) threads.emplace_back([&, t] { ask_at_random(served, t, 25, wrong); });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(served.stop() == 0);
}

TEST_CASE("a signal that reaches another thread does not leave the server waiting for ever", "[serve]") {
  const PageFolder folder;
  ServedProcess served(folder);
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(served.pid()) + "/task"))
    if (const int id = std::stoi(thread.path().filename()); id != served.pid())
      REQUIRE(::syscall(SYS_tgkill, served.pid(), id, SIGINT) == 0);
  for (int i = 0; i < 20; ++i) CHECK(served.ask("[]").contains("answer"));  // the signal is not handled yet
  CHECK(served.stop() == 0);
}

TEST_CASE("10,000 random questions, eight at a time, leave no files, processes or memory behind", "[serve][.deep]") {
  const PageFolder folder;
  ServedProcess served(folder);
  std::atomic<int> wrong = 0;
  const auto soak = [&](unsigned seed, int each) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t)
      threads.emplace_back([&, t] { ask_at_random(served, 100 * seed + t, each, wrong); });
    for (std::thread& thread : threads) thread.join();
  };
  soak(1, 125);
  const long before = resident_pages(served.pid());
  const std::ptrdiff_t files = open_files(served.pid());
  soak(2, 1125);
  CHECK(wrong == 0);
  // The server soon closes connections whose client is gone.
  for (int i = 0; i < 1000 && open_files(served.pid()) != files; ++i) served.ask("[]", "scenario");
  CHECK(open_files(served.pid()) == files);
  const std::string own = std::to_string(served.pid());
  CHECK(proc_text(served.pid(), "task/" + own + "/children").empty());
  constexpr long few_pages = 4096;  // 16 MiB: arenas of the threads
  CHECK(resident_pages(served.pid()) - before < few_pages);
  CHECK(served.stop() == 0);
}

}  // namespace tools_test_serve
