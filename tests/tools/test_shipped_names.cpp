// The shipped scenarios are found from any folder.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "models/reading/shipped_files.hpp"
#include "tests/tools/served_page.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_shipped_names {

using namespace trainyard;
using Catch::Matchers::Contains;
using test::TopoAnswer;
using test::TopoFolder;

TEST_CASE("every verb that reads a scenario finds the shipped ones by name, from any folder", "[cli][shipped]") {
  const TopoFolder shell;  // empty
  const std::string expected = shell.trainyard("run gpt2-one-a100 --no-what-if").out;
  CHECK_THAT(expected, Catch::Matchers::StartsWith("gpt2 in "));
  for (const char* name :
       {"gpt2-one-a100.yaml", "scenarios/gpt2-one-a100.yaml", "./scenarios/gpt2-one-a100", "gpt2_one_a100"})
    CHECK(shell.trainyard(std::string("run --no-what-if ") + name).out == expected);
  for (const char* words :
       {"explain gpt2-one-a100 --layers", "show gpt2-one-a100 --mesh",
        "plan gpt2-one-a100 --brief --vary plan.recompute=none", "sweep gpt2-one-a100 --set plan.micro_batch_size=1",
        "compare gpt2-one-a100 scenarios/gpt2-one-a100.yaml", "teach learning learn-async-vs-sync",
        "topo show gpt2-xl-ddp-dgx-a100", "topo path gpt2-xl-ddp-dgx-a100 0 8", "topo check gpt2-xl-ddp-dgx-a100",
        "bench all_reduce --on gpt2-xl-ddp-dgx-a100 -b 1M -e 1M",
        "launch 'torchrun --nproc-per-node=1 train.py' --on gpt2-one-a100", "show published/deepseek-v3-2048 --mesh",
        "show deepseek-v3-2048 --mesh", "show mpt-a100_80gb@a100_80gb_7b_s2048_g8_L184 --mesh",
        "run gpt2-one-a100 --no-what-if --prices scenarios/prices-example.yml", "share two-jobs --steps 2",
        "fleet fleet-year --nodes 32",
        "topo design --hosts 64 --switch quantum-2 --hosts-per-rack 32 --prices prices-example.yml"}) {
    INFO(words);
    const TopoAnswer answer = shell.trainyard(words);
    CHECK(answer.exit == 0);
    CHECK(answer.err == "");
  }
  CHECK_THAT(shell.trainyard("learn gpt2-one-a100").err, Contains("learn") && !Contains("no such file"));
  CHECK_THAT(shell.trainyard("size gpt2-one-a100 --days 9").err, Contains("training") && !Contains("no such file"));
  shell.write("study.yaml", "scenario: gpt2-one-a100\nset: {plan.micro_batch_size: [1]}\n");
  CHECK(shell.trainyard("sweep study.yaml").exit == 0);
}

TEST_CASE("serve finds a shipped scenario by name", "[shipped][serve]") {
  const TopoFolder folder;
  test::ServedProcess served(folder, "scenarios/gpt2-one-a100.yaml");
  CHECK_THAT(served.page(), Contains("\"scenario\":\"gpt2-one-a100\""));
}

TEST_CASE("a user's file comes before the shipped one of that name; errors offer the nearest name", "[cli][shipped]") {
  const TopoFolder shell;
  shell.write("gpt2-one-a100.yaml", "cluster: {nodes: 1}\n");
  CHECK(shell.trainyard("run gpt2-one-a100.yaml").err ==
        "gpt2-one-a100.yaml:1:1: the scenario: missing keys \"model\", \"plan\"\n");
  CHECK(shell.trainyard("run gpt2-xl-ddp-dgx-a10").err ==
        "gpt2-xl-ddp-dgx-a10: no such file, and no scenario of that name comes with the program; did you mean "
        "\"gpt2-xl-ddp-dgx-a100\"?\n");
  CHECK_THAT(shell.trainyard("run qqqqqq").err, Contains("`trainyard list scenarios` names those"));
  CHECK(shell.trainyard("run ../gpt2-xl-ddp-dgx-a100.yaml").exit == 2);
  CHECK(shell.trainyard("bench all_reduce --on gpt2-nowhere").exit == 2);
}

TEST_CASE("the first command in help runs, and the scenarios of the examples are shipped", "[cli][shipped][help]") {
  const TopoFolder shell;
  const std::string help = shell.trainyard("help").out, start = "Start with:\n  trainyard ";
  const std::size_t at = help.find(start);
  REQUIRE(at != std::string::npos);
  const std::string first = help.substr(at + start.size(), help.find('\n', at + start.size()) - at - start.size());
  CHECK(shell.trainyard(first + " --no-what-if").exit == 0);
  std::istringstream verbs(help);
  int examples = 0;
  for (std::string line; std::getline(verbs, line);) {
    if (!line.starts_with("  ") || line.starts_with("  trainyard")) continue;
    const std::string verb = line.substr(2, line.find(' ', 2) - 2);
    std::istringstream words(shell.trainyard("help " + verb).out);
    for (std::string word; words >> word;) {
      if (!word.starts_with("scenarios/") || !word.ends_with(".yaml")) continue;
      CAPTURE(verb, word);
      CHECK(shipped_scenario(word));
      ++examples;
    }
  }
  CHECK(examples >= 5);
}

TEST_CASE("the names of shipped scenarios are unique", "[shipped]") {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped_file("scenarios"))) {
    if (entry.path().extension() != ".yaml" && entry.path().extension() != ".yml") continue;
    CAPTURE(entry.path());
    CHECK(names.insert(entry.path().stem().string()).second);
    CHECK(shipped_scenario(entry.path().stem()) == entry.path());
  }
  CHECK(names.size() > 100);
}

}  // namespace tools_test_shipped_names
