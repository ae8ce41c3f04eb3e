// `trainyard fleet` as a user sees it.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/tools/topo_shell.hpp"

namespace tools_test_fleet_verb {

using nlohmann::json;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

TEST_CASE("fleet prints verdict, node-hours and trainings, and writes the same as JSON, CSV and SVG", "[fleet][cli]") {
  const TopoFolder folder;
  folder.write("small.yaml",
               "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 2}\nplan: {micro_batch_size: 4, "
               "global_batch_size: 64, training: {steps: 1000000}}\n");
  folder.write("fleet.yaml",
               "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nfleet: {horizon: 9 d}\n"
               "trainings:\n- {name: a, nodes: 1, count: 3, scenario: small.yaml}\n"
               "- {name: b, nodes: 2, deadline: 1 h, scenario: small.yaml}\n");
  const TopoAnswer text =
      folder.trainyard("fleet fleet.yaml --json a.json --csv a.csv --svg a.svg --prices prices-example");
  CAPTURE(text.err, text.out);
  REQUIRE(text.exit == 1);  // a training is late
  const json answer = json::parse(folder.text("a.json"));
  CHECK(text.out.find("4 trainings on 2 × dgx-a100") == 0);
  CHECK(text.out.find("verdict    2 nodes (16 GPUs, 0 spares) are not enough: 1 of 4 trainings late") !=
        std::string::npos);
  for (const char* line :
       {"\nlimit      b has the least slack", "\nnode-hours steps ", "\nqueue      ", "\ncost       "})
    CHECK(text.out.find(line) != std::string::npos);
  CHECK(answer["trainings"].size() == 4);
  CHECK(answer["trainings"][3]["in_time"] == false);
  CHECK(answer["costs"][0]["terms"] == "on demand");
  // The purchase has its parts and its rents, on the screen as in the JSON.
  const json owned = answer["ownership"];
  CHECK(owned["purchase"] == 300000 + 1000000 + 30000 + 16 * 1000);
  REQUIRE(owned["break_evens"].size() == 4);
  CHECK(owned["break_evens"][1]["terms"] == "reserved 1 month");
  CHECK(owned["break_evens"][1]["year"] == Approx(2 * 8 * 1.3 * 8760));
  CHECK(text.out.find("\npurchase   1,346,000 USD: cables 16,000 + nodes 300,000") != std::string::npos);
  CHECK(text.out.find("\nbreak-even buying costs less than on demand (210,240 a year)") != std::string::npos);
  CHECK(folder.text("a.csv").find("\na 1,") != std::string::npos);
  CHECK(folder.text("a.svg").starts_with("<svg"));
  CHECK(trainyard::test::widest_line(text.out) <= 130);
  CHECK(folder.trainyard("fleet fleet.yaml --set 'trainings.1.name=\"=1+1\"' --csv -").out.find("\n'=1+1,") !=
        std::string::npos);
  const TopoAnswer late = folder.trainyard("fleet fleet.yaml --nodes choose --set trainings.1.deadline='1 s' --json -");
  CHECK(late.exit == 1);
  CHECK(json::parse(late.out)["runs_in_time"] == 0);
  CHECK(json::parse(folder.trainyard("fleet fleet.yaml --nodes 5 --spares 1 --json -").out)["nodes"] == 5);
  folder.check_refused("fleet fleet.yaml --nodes some",
                       "--nodes: a number of nodes or choose: \"some\" is no whole number, expected 1 to 1048576");
  CHECK(folder.trainyard("fleet fleet.yaml --nodes choose --most-nodes 1").exit == 2);
  CHECK(folder.trainyard("fleet fleet.yaml --most-nodes 1").exit == 2);
  CHECK(folder.trainyard("fleet small.yaml").exit == 2);
  CHECK(folder.trainyard("run fleet.yaml").err.find("trainyard fleet FILE") != std::string::npos);
}

TEST_CASE("a fleet has no more nodes than its site has room for, and its exit code says whether a training is late",
          "[fleet][cli]") {
  const TopoFolder folder;
  folder.write("small.yaml",
               "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 2}\nplan: {micro_batch_size: 4, "
               "global_batch_size: 64, training: {steps: 1000000}}\n");
  folder.write("fleet.yaml",
               "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nfleet: {horizon: 9 d}\n"
               "trainings:\n- {name: a, nodes: 1, count: 3, deadline: 30 h, scenario: small.yaml}\n");
  const auto asked = [&](const std::string& words) {
    return folder.trainyard("fleet fleet.yaml --json a.json " + words);
  };
  const TopoAnswer roomy = asked("--nodes choose --set trainings.0.deadline='90 h' --site '{racks: 3}'");
  CAPTURE(roomy.err, roomy.out);
  CHECK(roomy.exit == 0);
  const int enough = json::parse(folder.text("a.json"))["nodes"];
  CHECK(json::parse(folder.text("a.json"))["site_nodes"] == 3);
  CHECK(roomy.out.find("\nsite       room for 3 x dgx-a100 (site.racks") != std::string::npos);
  // As many nodes as there is room for are tried, and no more.
  const TopoAnswer tight = asked("--nodes choose --set trainings.0.deadline='1 s' --site '{racks: 2}'");
  CAPTURE(tight.err, tight.out, enough);
  CHECK(tight.exit == 1);
  for (const json& tried : json::parse(folder.text("a.json"))["tries"]) CHECK(tried["nodes"] <= 2);
  CHECK(asked("--set trainings.0.deadline='6 h' --site '{racks: 2}'").exit == 1);
  CHECK(json::parse(folder.text("a.json"))["verdict"].get<std::string>().find(
            "No number up to 2 is enough either. The site has room for 2 nodes (site.racks).") != std::string::npos);
  // A power alone is a site, too; a node of 6.5 kW takes 10.27 kW of an average one.
  CHECK(asked("--site 25kW").exit == 0);
  CHECK(json::parse(folder.text("a.json"))["site_nodes"] == 2);
  folder.check_refused(
      "fleet fleet.yaml --site 25km",
      "--site 25km: expected a power such as 2 MW, the name of a site or a file; known: average, hyperscale");
  folder.check_refused("fleet fleet.yaml --nodes 4 --site '{racks: 3}'",
                       "--nodes 4: the site has room for 3 (site.racks)");
  folder.check_refused("fleet fleet.yaml --site '{racks: 1}'",
                       "fleet.yaml:1:10: cluster.nodes 2: the site has room for 1 (site.racks)");
  folder.check_refused("fleet fleet.yaml --nodes choose --spares 1 --site '{racks: 1}'",
                       "the trainings need at least 2 nodes, but the site has room for 1 (site.racks)");
}

TEST_CASE("a fleet says which of its trainings may run out of memory", "[fleet][cli]") {
  const TopoFolder folder;
  folder.write("tight.yaml",
               "cluster: {node: dgx-a100}\nmodel: gpt2-xl\nsoftware: pytorch-ddp\nplan: {micro_batch_size: 1, "
               "global_batch_size: 64, training: {steps: 1000}}\n");
  folder.write("fleet.yaml",
               "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nfleet: {horizon: 9 d}\n"
               "trainings:\n- {name: tight, nodes: 1, scenario: tight.yaml}\n");
  const auto shown = [&](int batch) {
    return folder.trainyard(
        "fleet fleet.yaml --json a.json --set trainings.0.plan='{micro_batch_size: " + std::to_string(batch) +
        ", global_batch_size: " + std::to_string(8 * batch) + ", training: {steps: 1000}}'");
  };
  const TopoAnswer safe = shown(1);
  CAPTURE(safe.err, safe.out);
  CHECK(json::parse(folder.text("a.json"))["steps"][0]["out_of_memory_probability"] < 0.05);
  CHECK(safe.out.find("At risk") == std::string::npos);
  CHECK(safe.out.find("  fits\n") != std::string::npos);
  const TopoAnswer tight = shown(15);
  CAPTURE(tight.err, tight.out);
  const json answer = json::parse(folder.text("a.json"));
  const double risk = answer["steps"][0]["out_of_memory_probability"];
  CHECK((risk >= 0.05 && risk < 0.95));
  const std::string percent = std::to_string(std::lround(100 * risk)) + " %";
  CHECK(answer["verdict"].get<std::string>().ends_with(
      " At risk to run out of memory: tight on 1 node with a probability of " + percent + "."));
  CHECK(tight.out.find("  at risk, " + percent + "\n") != std::string::npos);
}

TEST_CASE("the header and the verdict of a fleet name the run that the table shows", "[fleet][cli]") {
  const TopoFolder folder;
  folder.write("small.yaml",
               "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 2}\nplan: {micro_batch_size: 4, "
               "global_batch_size: 64, training: {steps: 1000000}}\n");
  folder.write("fleet.yaml",
               "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nfleet: {horizon: 60 d, runs: 4}\n"
               "faults: {failures: {mtbf: {node: 60 h}, seed: 1}, restart: {repair: 5 h},\n"
               "  checkpoint: {every: 1 h, write: 10 s, load: 10 s}}\n"
               "trainings:\n- {name: a, nodes: 1, count: 3, scenario: small.yaml}\n"
               "- {name: b, nodes: 2, deadline: 30 h, scenario: small.yaml}\n");
  const TopoAnswer text = folder.trainyard("fleet fleet.yaml --json a.json");
  CAPTURE(text.err, text.out);
  const json answer = json::parse(folder.text("a.json"));
  const std::string run = "run " + std::to_string(answer["shown_run"].get<int>());
  CHECK(answer["shown_run"] > 1);  // no training of the first run is late
  CHECK(text.out.find("4 trainings in " + run + " on 2 ") == 0);
  CHECK(text.out.find(" late in " + run + ",") != std::string::npos);
  CHECK(text.out.find("\n" + run + "  arrival ") != std::string::npos);
  std::size_t late = 0;
  for (const json& training : answer["trainings"]) late += training["in_time"] == false ? 1 : 0;
  CHECK(text.out.find(std::to_string(late) + " of 4 trainings late in " + run) != std::string::npos);
  CHECK(answer["runs_in_time"] == 3);
}

}  // namespace tools_test_fleet_verb
