// Lengths of the cables of a fabric whose hosts stand in racks.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"
#include "topologies/analysis/cable_plan.hpp"
#include "topologies/analysis/clos_design.hpp"

namespace topologies_test_cable_plan {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

ClosDesign design_of(std::int64_t hosts, int ports, int levels = 0) {
  ClosRequest request;
  request.hosts = hosts;
  request.ports = ports;
  request.levels = levels;
  return design_clos(request);
}

FloorPlan exact_floor(int hosts_of_rack, int racks_of_row) {
  FloorPlan floor;
  floor.hosts_of_rack = hosts_of_rack;
  floor.racks_of_row = racks_of_row;
  floor.lengths.clear();
  for (int tenth = 1; tenth <= 1000; ++tenth) floor.lengths.push_back(tenth / 10.0);
  return floor;
}

}  // namespace

TEST_CASE("cables within a rack go up and down, others over the tray", "[cable-plan]") {
  // Two hosts in a rack of 2 m, at 0.5 and 1.5 m, and their switch on top of the first: 1.5 + 1 and 0.5 + 1 m.
  const CablePlan rack = plan_cables(cabled_network(design_of(2, 4)), exact_floor(2, 10));
  CHECK(rack.racks == 1);
  REQUIRE(rack.cables.size() == 2);
  CHECK(rack.cables[0].length == Approx(1.5));
  CHECK(rack.cables[1].length == Approx(2.5));
  CHECK_FALSE(rack.cables[1].optical);
  // One host a rack, four racks in two rows: the switch on the second, at x 0.6, y 0. Hosts are at 1 m.
  const CablePlan floor = plan_cables(cabled_network(design_of(4, 4)), exact_floor(1, 2));
  CHECK(floor.racks == 4);
  CHECK(floor.rows == 2);
  // The host below the switch: 1 + 1. The first host: up 1.5, along 0.6, down 0.5, slack 1. The others are 2.1 and 2.7 m
  // away.
  std::vector<double> lengths;
  for (const CablesOfLength& c : floor.cables) lengths.push_back(c.length);
  REQUIRE(lengths.size() == 4);
  CHECK(lengths[0] == Approx(2));
  CHECK(lengths[1] == Approx(3.6));
  CHECK(lengths[2] == Approx(5.1));
  CHECK(lengths[3] == Approx(5.7));
  CHECK(floor.count(false) == 1);
  CHECK(floor.metres(true) == Approx(3.6 + 5.1 + 5.7));
}

TEST_CASE("every cable of a design has a length", "[cable-plan]") {
  for (const auto& [hosts, ports, levels] :
       {std::tuple{32, 64, 0}, {1024, 64, 0}, {1000, 64, 0}, {100, 16, 2}, {1024, 64, 3}, {5000, 64, 3}, {18, 8, 0}}) {
    CAPTURE(hosts, ports, levels);
    const ClosDesign design = design_of(hosts, ports, levels);
    FloorPlan floor;
    floor.hosts_of_rack = 32;
    const CablePlan plan = plan_cables(cabled_network(design), floor);
    CHECK(plan.count(false) + plan.count(true) == design.cables());
    for (const CablesOfLength& c : plan.cables) CHECK(c.optical == (c.length > 3));
  }
}

TEST_CASE("a cable longer than all lengths on sale has a multiple of the longest of them", "[cable-plan]") {
  FloorPlan floor = exact_floor(1, 100);
  floor.lengths = {1, 10};
  const CablePlan plan = plan_cables(cabled_network(design_of(64, 64)), floor);  // racks up to 20 m from their switch
  CHECK(plan.cables.back().length == 30);
  floor.lengths = {3, 1};
  CHECK_THROWS_AS(plan_cables(cabled_network(design_of(4, 4)), floor), UserError);
  floor.hosts_of_rack = 0;
  CHECK_THROWS_AS(plan_cables(cabled_network(design_of(4, 4)), floor), UserError);
}

TEST_CASE("topo design shows lengths and prices of cables", "[cable-plan][topo]") {
  const TopoFolder shell;
  shell.write("prices.yml",
              "currency: EUR\nswitch: {quantum-2: 1000}\ncable: {copper: 10, copper_metre: 1, optical: 100, "
              "optical_metre: 2}\n");
  const TopoAnswer answer =
      shell.run("design --hosts 1024 --switch quantum-2 --hosts-per-rack 32 --prices prices.yml --json out.json");
  CHECK(answer.exit == 0);
  CHECK_THAT(answer.out, Contains("32 racks of hosts in 4 rows") && Contains("optical") && Contains("EUR"));
  const nlohmann::json json = parse_json(shell.text("out.json"));
  double cost = 1000 * json.at("switches").get<double>();
  for (const auto& cable : json.at("by_length")) {
    const bool optical = cable.at("optical");
    cost += cable.at("count").get<double>() *
            ((optical ? 100 : 10) + (optical ? 2 : 1) * cable.at("length_m").get<double>());
  }
  CHECK(json.at("cost").get<double>() == Approx(cost));
  const auto refused = [&shell](const std::string& words, const std::string& why) {
    const TopoAnswer wrong = shell.run("design --hosts 32 " + words);
    CHECK(wrong.exit == 2);
    CHECK_THAT(wrong.err, Contains(why));
  };
  refused("--ports 64 --racks-per-row 3", "only with --hosts-per-rack");
  refused("--switch quantum-2 --prices prices.yml", "--hosts-per-rack expected");
  refused("--ports 64 --hosts-per-rack 8 --prices prices.yml", "--switch NAME expected");
  refused("--switch quantum --hosts-per-rack 8 --prices prices.yml", "no price of the switch quantum");
  refused("--ports 64 --hosts-per-rack 8 --cable-lengths 0,1", "--cable-lengths");
  refused("--ports 64 --hosts-per-rack 8 --racks-per-row 0", "--racks-per-row");
  CHECK(shell.run("design --hosts 32 --ports 64 --hosts-per-rack 8 --cable-lengths 3,1").out ==
        shell.run("design --hosts 32 --ports 64 --hosts-per-rack 8 --cable-lengths 1,3").out);
}

}  // namespace topologies_test_cable_plan
