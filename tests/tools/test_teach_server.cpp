// `trainyard teach server`: known times, and equal figures in text, picture and data.
#include <fmt/format.h>

#include "scenarios/src/lessons/teach_server.hpp"
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
  const json data = json::parse(shell.text("s.json"));
  CHECK(data["time"].get<double>() == near(1 + 3 * (4 + 1 + 0.25) + 2));
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
    CHECK(widest(answer.out) <= 100);
    const json data = json::parse(shell.text("s.json"));
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
    for (const auto& [of, count] : data["staleness"].items())
      stale += fmt::format("{}{}: {}", stale.back() == ' ' && stale[stale.size() - 2] == ':' ? "" : ", ", of,
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

TEST_CASE("teach server refuses what it cannot show, in one line", "[teach][servers]") {
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
  shell.check_refused("server --workers 1 --slower 1,2", "--slower 1,2: 2 factors for 1 workers");
  shell.check_refused("server --compute 0", "--compute 0: 0.001 to 1000000 expected");
}

}  // namespace tools_test_teach_server
