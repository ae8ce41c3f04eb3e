// `trainyard help`, and its reference of the JSON.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/tools/topo_shell.hpp"

using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

TEST_CASE("help explains verbs and the JSON, and names the nearest topic", "[cli][help]") {
  const TopoFolder shell;
  const TopoAnswer usage = shell.trainyard("help");
  CHECK(usage.exit == 0);
  CHECK(usage.out.find("usage: trainyard VERB") != std::string::npos);
  CHECK(shell.trainyard("--help").out == usage.out);
  CHECK(shell.trainyard("help run").out == shell.trainyard("run --help").out);

  const TopoAnswer json = shell.trainyard("help json");
  CHECK(json.exit == 0);
  for (const char* words : {"step_time_s", "memory_bytes", "trainyard bench --json", "trainyard sweep --json",
                            "trainyard validate --json", "busbw_GBps", "(with parameter servers)"}) {
    CAPTURE(words);
    CHECK(json.out.find(words) != std::string::npos);
  }
  const TopoAnswer bench = shell.trainyard("help json bench");
  CHECK(bench.exit == 0);
  CHECK(bench.out.find("algbw_GBps") != std::string::npos);
  CHECK(bench.out.find("step_time_s") == std::string::npos);

  const TopoAnswer unknown = shell.trainyard("help jsn");
  CHECK(unknown.exit == 2);
  CHECK(unknown.err == "trainyard help: unknown topic \"jsn\"; did you mean \"json\"?\n");
  CHECK(shell.trainyard("help json benc").exit == 2);
}
