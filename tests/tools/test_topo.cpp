// `topo rings` and `topo design` as a user sees them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_topo {

using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

namespace {

struct TopoShell : TopoFolder {
  /// Checks for one line of error, exit code 2, no output and no written file.
  void check_refused(const std::string& arguments, const std::string& why) const {
    CAPTURE(arguments);
    const TopoAnswer answer = run(arguments);
    CHECK(answer.exit == 2);
    CHECK(answer.out.empty());
    CHECK_THAT(answer.err, Contains(why));
    CHECK(std::count(answer.err.begin(), answer.err.end(), '\n') == 1);
    CHECK_FALSE(fs::exists(path() / "out.json"));
  }
};

}  // namespace

TEST_CASE("topo rings shows the rings of a node of the catalog", "[tools][topo]") {
  const TopoShell shell;
  const TopoAnswer answer = shell.run("rings dgx-1v --json out.json");
  CHECK(answer.exit == 0);
  CHECK_THAT(answer.out, Contains("0 3 2 1 5 6 7 4 0") && Contains("50.0 GB/s") && Contains("all links used"));
  const json out = trainyard::parse_json(shell.text("out.json"));
  REQUIRE(out["rings"].size() == 2);
  CHECK(out["rings"][0]["order"] == json({0, 3, 2, 1, 5, 6, 7, 4}));
  CHECK(out["rings"][0]["weight"] == 2);
  CHECK(out["rings"][0]["bandwidth_Bps"] == 50e9);
  CHECK(out["rings"][1]["weight"] == 1);
  CHECK(out["complete"] == true);
}

TEST_CASE("topo rings reads links from a file", "[tools][topo]") {
  const TopoShell shell;
  shell.write("mesh.yaml", "links: [[0, 1, 2], [1, 2, 2], [2, 0, 2]]\nlink_rate: 25 GB/s\n");
  const TopoAnswer answer = shell.run("rings mesh.yaml --json -");
  CHECK(answer.exit == 0);
  const json out = trainyard::parse_json(answer.out);
  CHECK(out["rings"] == trainyard::parse_json(R"([{"order": [0, 1, 2], "weight": 2, "bandwidth_Bps": 5e10}])"));
  shell.write("path.yaml", "links: [[0, 1], [1, 2]]\n");
  const TopoAnswer none = shell.run("rings path.yaml");
  CHECK(none.exit == 0);
  CHECK_THAT(none.out, Contains("no ring passes through every device: device 0 has only one link"));
  CHECK(trainyard::parse_json(shell.run("rings path.yaml --json -").out)["rings"].empty());
  shell.write("node.yaml", "base: dgx-1v\nnvlink: {link_rate: 20 GB/s}\n");
  CHECK_THAT(shell.run("rings node.yaml").out, Contains("40.0 GB/s"));
}

TEST_CASE("topo rings refuses machines without a mesh", "[tools][topo]") {
  const TopoShell shell;
  shell.check_refused("rings dgx-1w --json out.json", "did you mean");
  shell.check_refused("rings dgx-a100 --json out.json", "its interconnect is nvswitch");
  shell.check_refused("rings missing.yaml", "missing.yaml");
  shell.check_refused("rings", "FILE|NODE");
  const std::pair<const char*, const char*> faults[] = {
      {"links: [[0, 0, 1]]", "bad.yaml:1:9: links: device 0 linked to itself"},
      {"links: [[0, 16, 1]]", "expected 0 to 15"},
      {"links: [[0, -1]]", "expected 0 to 15"},
      {"links: [[0, 1, 0]]", "expected 1 to 64"},
      {"links: [[0, 1.5]]", "no whole number"},
      {"links: [[0, [1]]]", "expected [device, device, number of links]"},
      {"links: [0, 1]", "expected [device, device, number of links]"},
      {"links: 3", "expected a list"},
      {"links: []", "expected a list"},
      {"links: [[0, 1, 40], [0, 1, 40]]", "more than 64 links"},
      {"links: [[0, 1, 2]]\nlink_rate: -1 GB/s", "link_rate"},
      {"links: [[0, 1, 2]]\nlink_rte: 1 GB/s", "link_rate"},
      {"links: [[0, 1, 2]]\ndevices: 17", "expected 2 to 16"},
      {"ports: 3", "links"},
  };
  for (const auto& [text, why] : faults) {
    shell.write("bad.yaml", std::string(text) + "\n");
    shell.check_refused("rings bad.yaml --json out.json", why);
  }
}

TEST_CASE("topo design shows parts and cost", "[tools][topo]") {
  const TopoShell shell;
  const TopoAnswer answer =
      shell.run("design --hosts 1024 --ports 64 --switch-price 20000 --cable-price 150 --json out.json");
  CHECK(answer.exit == 0);
  CHECK_THAT(answer.out, Contains("2 levels, 48 switches") && Contains("nonblocking") && Contains("cost 1267200"));
  const json out = trainyard::parse_json(shell.text("out.json"));
  CHECK(out["levels"] == 2);
  CHECK(out["switches"] == 48);
  CHECK(out["links"] == 1024);
  CHECK(out["cables"] == 2048);
  CHECK(out["ports_left"] == 0);
  CHECK(out["cost"] == 1267200.0);
  CHECK(out["by_level"][1]["name"] == "spine");
  const json single = trainyard::parse_json(shell.run("design --hosts 32 --ports 64 --json -").out);
  CHECK(single["levels"] == 1);
  CHECK(single["switches"] == 1);
  CHECK(single["links"] == 0);
  CHECK_FALSE(single.contains("cost"));
  const json thin =
      trainyard::parse_json(shell.run("design --hosts 1024 --ports 64 --oversubscription 2:1 --json -").out);
  CHECK(thin["switches"] < 48);
  CHECK(thin["nonblocking"] == false);
  CHECK(trainyard::parse_json(shell.run("design --hosts 1024 --ports 64 --levels 3 --json -").out)["levels"] == 3);
}

TEST_CASE("topo design refuses impossible designs", "[tools][topo]") {
  const TopoShell shell;
  shell.check_refused("design --json out.json", "--hosts and --ports are needed");
  shell.check_refused("design --hosts 17 --ports 4 --json out.json", "the most is 16");
  shell.check_refused("design --hosts 9 --ports 4 --levels 2 --json out.json", "the most is 8");
  shell.check_refused("design --hosts -3 --ports 4", "--hosts -3: 1 or more expected");
  shell.check_refused("design --hosts 3 --ports -4", "--ports -4: 1 or more expected");
  shell.check_refused("design --hosts 3 --ports 4 --levels 5", "5 levels");
  shell.check_refused("design --hosts 3 --ports 4 --oversubscription 0.5", "expected 1 or more");
  shell.check_refused("design --hosts 3 --ports 4 --oversubscription x", "expected a number");
  shell.check_refused("design --hosts 3 --ports 4 --switch-price -1", "expected 0 or more");
  shell.check_refused("design --hosts 3 --prots 4", "--ports");
  shell.check_refused("design --hosts 3 --ports 4 --json no/out.json", "no folder");
}

TEST_CASE("topo --help lists its verbs, and a misspelt verb gets the nearest name", "[tools][topo]") {
  const TopoShell shell;
  const TopoAnswer help = shell.run("--help");
  CHECK(help.exit == 0);
  CHECK_THAT(help.out, Contains("rings") && Contains("design"));
  CHECK(shell.run("").exit == 2);
  shell.check_refused("desing --hosts 4", "did you mean \"design\"");
  CHECK_THAT(shell.run("rings --help").out, Contains("trainyard topo rings dgx-1v"));
}

}  // namespace tools_test_topo
