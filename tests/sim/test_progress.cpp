// Progress lines if stderr is not a terminal.
#include "sim/observers/progress.hpp"
#include "tests/tools/topo_shell.hpp"

namespace sim_test_progress {

using namespace trainyard;
using std::chrono::seconds;

TEST_CASE("progress lines come every ten seconds; unless requested, only after a minute", "[progress]") {
  const ProgressPace::Clock::time_point start{};
  const auto lines = [&](bool is_requested, int every) {
    ProgressPace pace(start);
    std::vector<int> at;
    for (int s = 0; s <= 100; s += every)
      if (pace.is_due(start + seconds(s), is_requested)) at.push_back(s);
    return at;
  };
  CHECK(lines(true, 1) == std::vector<int>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100});
  CHECK(lines(false, 1) == std::vector<int>{60, 70, 80, 90, 100});
  CHECK(lines(false, 45) == std::vector<int>{90});
}

TEST_CASE("a progress line is as wide as the terminal at most", "[progress]") {
  CHECK(cut_line("12 of 30", 0) == "12 of 30");
  CHECK(cut_line("12 of 30", 8) == "12 of 30");
  CHECK(cut_line("12 of 30", 5) == "12 o…");
  CHECK(cut_line("±7 % …", 6) == "±7 % …");
  CHECK(cut_line("±7 % …", 3) == "±7…");
}

TEST_CASE("every verb knows --progress, and it is in the help", "[progress][cli]") {
  const test::TopoFolder shell;
  for (const char* verb : {"run", "sweep", "plan", "size", "explain", "learn", "bench"}) {
    CAPTURE(verb);
    CHECK(shell.trainyard(std::string(verb) + " --help").out.find("--progress") != std::string::npos);
  }
  CHECK(shell.trainyard("run gpt2-one-a100 --no-what-if --progress").exit == 0);
}

}  // namespace sim_test_progress
