// `trainyard anchor` as a user sees it: what it prints and writes, and what it refuses.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/small_scenario.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_anchor_verb {

using nlohmann::json;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

namespace {

using trainyard::test::kSmallScenario;

}  // namespace

TEST_CASE("anchor fits a stack to the memory that nvidia-smi shows, and run uses it", "[cli][anchor]") {
  const TopoFolder shell;
  shell.write("good.yaml", kSmallScenario);
  const TopoAnswer answer =
      shell.trainyard("anchor " TRAINYARD_SOURCE_DIR
                      "/scenarios/gpt2-one-a100.yaml --measured '24 GiB' --name mine --out catalog --json a.json");
  CHECK(answer.err == "");
  CHECK(answer.exit == 0);
  for (const char* words :
       {"memory of 1 run: mean error 10.9 % before", "the allocator's reserve over what is allocated",
        "software: mine is catalog/stacks/mine.yaml"}) {
    CAPTURE(answer.out);
    CHECK(answer.out.find(words) != std::string::npos);
  }
  const json j = json::parse(shell.text("a.json"));
  CHECK(j.at("steps").empty());
  CHECK(j.at("parts").at(0).at("error_before").get<double>() == Approx(0.109).margin(0.001));
  CHECK(j.at("parts").at(0).at("error_after").get<double>() < 0.01);
  CHECK(j.at("parts").at(0).at("measured") == "memory of 1 run");
  CHECK(j.at("parts").at(0).at("worst") == "24 GiB");
  CHECK(std::abs(j.at("parts").at(0).at("worst_error").get<double>()) < 0.01);
  shell.write("anchored.yaml", std::string(kSmallScenario) + "software: mine\n");
  CHECK(shell.trainyard("run anchored.yaml --no-what-if").exit == 0);
  shell.check_refused("anchor good.yaml --measured '3 GiB' --judge '2 GiB'",
                      "anchor: --judge 2 GiB: steps expected, not parts");
  shell.check_refused("anchor good.yaml --measured none.log", "none.log: no such file");
  shell.check_refused("anchor good.yaml --measured /dev/null",
                      "/dev/null: is no file of measurements; expected a log, or a table in CSV or YAML");
  shell.check_refused("anchor good.yaml --measured none.log --name ../x",
                      "--name ../x: letters, digits, \"-\", \"_\" and \".\" expected, as in my-cluster");
  shell.check_refused("anchor good.yaml --measured none.log --name nemo",
                      "--name nemo: the catalog has a stack of this name; another one expected, as in my-nemo");
  shell.write("times.csv", "step_time_s\n1\n");
  shell.check_refused("anchor good.yaml --measured times.csv --judge times.csv",
                      "--judge times.csv: it is also measured; steps that the fit does not use expected");
  shell.check_refused("anchor good.yaml --measured times.csv --first 1",
                      "--first 1: 1 step measured; fewer than that expected, so that others judge");
  shell.check_refused("anchor good.yaml --measured '3 GiB'",
                      "anchor: plain is an ideal stack, which nobody can measure; name another one in software");
}

}  // namespace tools_test_anchor_verb
