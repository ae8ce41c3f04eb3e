// `trainyard teach server`: known times, and equal figures in text, picture and data.
#include <fmt/format.h>

#include "scenarios/src/lessons/teach_server.hpp"
#include "sim/json_text.hpp"
#include "tests/support.hpp"
#include "tests/svg_checks.hpp"
#include "tests/tools/teach_shell.hpp"

namespace tools_test_teach_server {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

double time_in(const json& spans, const std::string& what) {
  double sum = 0;
  for (const json& span : spans)
    if (span["what"] == what) sum += span["end"].get<double>() - span["begin"].get<double>();
  return sum;
}

std::size_t bars(const json& data) {
  std::size_t count = 0;
  for (const json& actor : data["actors"]) count += actor["spans"].size();
  return count;
}

/// The row of the text that begins with this name.
std::string row(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  REQUIRE(at != std::string::npos);
  return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

}  // namespace

TEST_CASE("teach server: the time of a single worker is the sum of its parts", "[teach][servers]") {
  const Teacher shell;
  const TopoAnswer answer = shell.teach("server --workers 1 --steps 3 --svg s.svg --json s.json");
  CHECK(answer.exit == 0);
  CHECK(answer.err.empty());
  // The worker first gets weights. Then it computes, pushes and updates three times. The first two answers have
  // weights.
  CHECK_THAT(answer.out, Contains("synchronous: 1 worker, 1 server, 3 steps\n") &&
                             Contains("computing 4, push 1, applied in 0.25, pull 1\n") && Contains("\ntime: 18.75; "));
  const json data = parse_json(shell.text("s.json"));
  CHECK(data["time"] == near(1 + 3 * (4 + 1 + 0.25) + 2));
  REQUIRE(data["actors"].size() == 2);
  CHECK(data["actors"][0]["name"] == "worker 0");
  CHECK(data["actors"][1]["name"] == "server 0");
  const json &worker = data["actors"][0]["spans"], &server = data["actors"][1]["spans"];
  CHECK(time_in(worker, "compute") == near(12));
  CHECK(time_in(worker, "push") == near(3));
  CHECK(time_in(worker, "pull") == near(3));
  CHECK(time_in(server, "apply") == near(0.75));
  CHECK(data["staleness"].size() == 1);
  CHECK(shell.teach("server --workers 1 --steps 3 --json -").out == shell.text("s.json"));
}

TEST_CASE("teach server shows the same as text, picture and data", "[teach][servers]") {
  const Teacher shell;
  for (const char* arguments :
       {"--workers 4 --consistency asynchronous --slower 1,1,1,2", "--workers 3 --servers 2 --keys 4",
        "--workers 4 --backup-workers 1 --slower 1,1,1,3", "--workers 3 --consistency stale --staleness 1",
        "--workers 16 --servers 16 --steps 100", "--workers 1 --apply 0 --push 0"}) {
    CAPTURE(arguments);
    const TopoAnswer answer = shell.teach(fmt::format("server {} --svg s.svg --json s.json", arguments));
    CHECK(answer.exit == 0);
    CHECK(answer.err.empty());
    CHECK(widest_line(answer.out) <= 100);
    const json data = parse_json(shell.text("s.json"));
    const std::string picture = shell.text("s.svg");
    const int workers = data["workers"], servers = data["servers"];
    REQUIRE(data["actors"].size() == static_cast<std::size_t>(workers + servers));
    double computing = 0;
    for (int w = 0; w < workers; ++w)
      computing += time_in(data["actors"][static_cast<std::size_t>(w)]["spans"], "compute");
    const double time = data["time"];
    const std::string share = fmt::format("workers compute {:.4g} % of the time", 100 * computing / workers / time),
                      title = fmt::format("{}", answer.out.substr(0, answer.out.find('\n')));
    std::string stale = "staleness (updates missed: pushes): ";
    for (const auto& [updates, count] : data["staleness"].items())
      stale += fmt::format("{}{}: {}", stale.back() == ' ' && stale[stale.size() - 2] == ':' ? "" : ", ", updates,
                           count.get<int>());
    for (const std::string& sentence : {share, stale, fmt::format("time: {:.6g}; ", time)}) {
      CHECK_THAT(answer.out, Contains("\n" + sentence));
      CHECK_THAT(picture, Contains(">" + sentence));
    }
    CHECK_THAT(picture, Contains(title));
    well_formed(picture);
    CHECK(rectangles_within(picture) >= bars(data) + 4);  // and the legend
    for (const json& actor : data["actors"])
      CHECK_THAT(picture, Contains(">" + actor["name"].get<std::string>() + "<"));
  }
}

TEST_CASE("teach server: rows show events at their times", "[teach][servers]") {
  const Teacher shell;
  const std::string text = shell.teach("server --workers 2 --consistency asynchronous --slower 1,2 --steps 2").out;
  // 82 columns; the first worker computes half as long as the second one.
  const auto marks = [&](const std::string& name, char mark) {
    const std::string line = row(text, name);
    return std::count(line.begin(), line.end(), mark);
  };
  CHECK(marks("worker 1 computes", '#') == Approx(2 * static_cast<double>(marks("worker 0 computes", '#'))).margin(3));
  CHECK(marks("server 0", '0') >= 2);
  CHECK(marks("server 0", '1') >= 2);
}

namespace {

json values_of(const Teacher& shell, const std::string& arguments) {
  const TopoAnswer answer = shell.teach("server " + arguments + " --json -");
  CAPTURE(arguments, answer.err);
  REQUIRE(answer.exit == 0);
  return parse_json(answer.out);
}

/// The values that the pulls of a worker return, in order.
std::vector<double> pulls_of(const json& lesson, int worker) {
  std::vector<double> values;
  for (const json& value : lesson["values"])
    if (value["what"] == "pull" && value["worker"] == worker) values.push_back(value["value"]);
  return values;
}

}  // namespace

TEST_CASE("teach server: a synchronous pull returns the sum of all pushes, an asynchronous one a part",
          "[teach][servers]") {
  const Teacher shell;
  for (const char* arguments : {"--workers 3 --steps 4", "--workers 3 --servers 2 --keys 4 --steps 4",
                                "--workers 3 --steps 4 --slower 1,2,3"}) {
    const json synchronous = values_of(shell, std::string(arguments) + " --values 5,7,100");
    CHECK(synchronous["partial_pulls"] == 0);
    std::map<std::string, int> pulls;
    for (const json& value : synchronous["values"])
      if (value["what"] == "pull" && value["worker"] == 1)
        CHECK(value["value"] == (5 + 7 + 100) * pulls[value["key"]]++);
    CHECK(pulls.begin()->second == 4);  // first weights, then an answer to each step that another one follows
  }
  const json asynchronous =
      values_of(shell, "--workers 3 --steps 4 --slower 1,2,3 --values 5,7,100 --consistency asynchronous");
  CHECK(asynchronous["partial_pulls"] > 0);
  CHECK(pulls_of(asynchronous, 0)[1] == 5);  // before any push of the others
  double sum = 0;
  for (const json& value : asynchronous["values"]) {
    if (value["what"] == "push") CHECK(value["value"] == (sum += value["pushed"].get<double>()));
    const json& pushes = value["pushes"];
    CHECK(value["value"] == 5 * pushes[0].get<double>() + 7 * pushes[1].get<double>() + 100 * pushes[2].get<double>());
  }
  CHECK(sum == 4 * (5 + 7 + 100));
  // With a backup worker a step takes the first gradients, and drops the last one.
  CHECK(pulls_of(values_of(shell, "--workers 3 --backup-workers 1 --slower 1,1,3 --steps 2"), 0)[1] == 1 + 2);
  const std::string text = shell.teach("server --workers 2 --values 5,7 --steps 1").out;
  CHECK_THAT(text, Contains("pushes 7") && Contains("2 pulls return whole sums"));
  // Each pull is drawn: it takes the time of a message.
  const json alone = values_of(shell, "--workers 1 --steps 4");
  const json& spans = alone["actors"][0]["spans"];
  CHECK(alone["pulls"] == std::ranges::count_if(spans, [](const json& span) { return span["what"] == "pull"; }));
}

TEST_CASE("teach server --script shows what pulls return in each consistency", "[teach][servers]") {
  const Teacher shell;
  shell.write("two.txt",
              "# both push, worker 0 first\n"
              "worker 0: push w 3\n"
              "worker 0: pull w\n"
              "worker 1: compute 6   # slots\n"
              "worker 1: push w 4\n"
              "worker 1: pull w\n"
              "worker 0: push w 10\n"
              "worker 1: push w 20\n"
              "worker 0: pull w\n"
              "worker 1: pull w\n");
  const json waits = values_of(shell, "--script two.txt");
  CHECK(pulls_of(waits, 0) == std::vector<double>{7, 37});
  CHECK(pulls_of(waits, 1) == std::vector<double>{7, 37});
  CHECK(waits["keys"] == json{"w"});
  // 6 slots of computing, the push, its addition and the answer, which shares the server's link with the other one.
  CHECK(waits["values"][2]["asked"] == near(1));
  CHECK(waits["values"][2]["time"] == near(6 + 1 + 0.25 + 2));
  const json partial = values_of(shell, "--script two.txt --consistency asynchronous");
  CHECK(pulls_of(partial, 0) == std::vector<double>{3, 13});
  CHECK(pulls_of(partial, 1) == std::vector<double>{17, 37});
  CHECK(partial["partial_pulls"] == 2);
  CHECK(partial["values"][1]["time"] == near(1 + 0.25 + 1));
  const json stale = values_of(shell, "--script two.txt --consistency stale --staleness 1");
  CHECK(pulls_of(stale, 0) == std::vector<double>{3, 17});  // one round behind the other's is allowed, two are not
  // A worker that only pulls waits for as many rounds as it pulls; keys do not wait for each other.
  shell.write("reader.txt",
              "worker 0: push a 1\nworker 1: push a 2\nworker 0: push b -5\nworker 2: pull b\nworker 2: pull a\n");
  const json reader = values_of(shell, "--script reader.txt");
  CHECK(pulls_of(reader, 2) == std::vector<double>{-5, 3});
  CHECK_THAT(shell.teach("server --script two.txt --svg -").out, Contains("server 0"));
  CHECK_THAT(shell.teach("server --script two.txt --html - --consistency asynchronous").out,
             Contains("pulls a partial sum"));
}

TEST_CASE("teach server --script names the line of an error, and of a pull that waits for ever", "[teach][servers]") {
  const Teacher shell;
  const auto check_script_refused = [&shell](const std::string& text, const std::string& error) {
    shell.write("bad.txt", text);
    shell.check_refused("server --script bad.txt", "bad.txt" + error);
  };
  check_script_refused(
      "worker 0: push w 3\nworker 0: push w 3\nworker 1: push w 1\nworker 0: pull w\n",
      ":4:1: worker 0 waits for w for ever: it needs 2 pushes of each worker, and worker 1 pushes 1 time; expected "
      "--consistency asynchronous, or more pushes");
  check_script_refused(
      "worker 0: pull w\n",
      ":1:1: worker 0 waits for w for ever: no worker pushes it; expected --consistency asynchronous, or more pushes");
  check_script_refused("\nworker 0: pusch w 3\n", ":2:1: \"pusch\": unknown; did you mean \"push\"?");
  check_script_refused("worker 0: push w\n", ":1:1: push: a key and a value expected");
  check_script_refused("worker 0: push w x\n", ":1:1: \"x\" is not a number");
  check_script_refused(
      "worker 16: pull w\n",
      ":1:1: expected \"worker N: push KEY VALUE\", \"worker N: pull KEY\" or \"worker N: compute TIME\", with N "
      "from 0 to 15");
  check_script_refused("# nothing\n", ": no push and no pull; expected lines such as \"worker 0: push w 3\"");
  shell.check_refused("server --script bad.txt --workers 3",
                      "--script: the file says what workers do; only --consistency, --staleness, --push and --apply "
                      "beside it");
  shell.check_refused("server --workers 1 --values 1,2", "--values 1,2: 2 values for 1 worker");
}

TEST_CASE("teach server: no worker leads by more than its consistency allows, with several keys too",
          "[teach][servers]") {
  const Teacher shell;
  const auto lead = [&](const std::string& arguments) {
    const json data = values_of(shell, arguments);
    return data["largest_lead_steps"].get<int>();
  };
  for (const char* parts :
       {"", " --servers 4", " --keys 4", " --servers 2 --keys 6", " --push 0", " --servers 4 --push 0"}) {
    CAPTURE(parts);
    const std::string four = std::string("--workers 4 --steps 10") + parts;
    CHECK(lead(four) == 0);
    CHECK(lead(std::string("--workers 1 --steps 10") + parts) == 0);
    CHECK(lead(four + " --slower 1,1,1,3 --consistency stale --staleness 2") <= 2);
    CHECK(lead(four + " --slower 1,1,1,3 --consistency asynchronous") >= 3);
  }
  CHECK_THAT(shell.teach("server --workers 4 --servers 4").out,
             Contains("4.938 worker steps in 6.25, the sum of these times without overlap"));
}

TEST_CASE("teach server refuses impossible lessons in one line", "[teach][servers]") {
  const Teacher shell;
  shell.check_refused("server --workers 0", "--workers 0: 1 to 16 expected");
  shell.check_refused("server --servers 17", "--servers 17: 1 to 16 expected");
  shell.check_refused("server --servers 4 --keys 3", "--keys 3: 4 to 64 expected");
  shell.check_refused("server --consistency asynchronus",
                      "--consistency asynchronus: unknown; did you mean \"asynchronous\"?");
  shell.check_refused("server --staleness 2", "--staleness: with --consistency stale only");
  shell.check_refused("server --backup-workers 4", "--backup-workers 4: 0 to 3 expected");
  shell.check_refused("server --backup-workers 1 --consistency asynchronous",
                      "--backup-workers: with --consistency synchronous only");
  shell.check_refused("server --workers 1 --slower 1,2", "--slower 1,2: 2 factors for 1 worker; one each is expected");
  shell.check_refused("server --workers 4 --slower 1,2", "--slower 1,2: 2 factors for 4 workers; one each is expected");
  shell.check_refused("server --compute 0", "--compute 0: 0.001 to 1000000 expected");
}

}  // namespace tools_test_teach_server
