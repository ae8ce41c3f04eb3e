// The switches and cables of a cluster's fabric, as a purchase prices them.
#include <catch2/catch.hpp>

#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/running/bought_network.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "topologies/analysis/network_design.hpp"

namespace scenarios_test_bought_network {

using namespace trainyard;

TEST_CASE("run prices the switches and cables of the fabric that a scenario has", "[costs]") {
  const auto network_on = [](const std::string& fabric, int nodes) {
    ClusterSpec spec;
    const Catalog catalog;
    spec.nodes = nodes;
    spec.node = read_node(catalog.resolve("node", Node::scalar_node("dgx-b200")), catalog);
    read_fabric(spec, catalog.resolve("fabric", parse_document("fabric: " + fabric, "x.yaml").fields.front().second),
                catalog);
    Purchase purchase;
    purchase.switch_ports = 64;
    return bought_network(spec, purchase);
  };
  // 160 adapters: four leaves of 40 with 10 uplinks, and a spine.
  const BoughtNetwork oversubscribed = network_on("{base: leaf-spine, levels: [{down: 40, oversubscription: 4}]}", 20);
  CHECK(oversubscribed.switches == 5);
  CHECK(oversubscribed.cables == 200);
  CHECK(network_on("rail-only", 20).switches == 8);
  CHECK(network_on("rail-only", 20).cables == 160);
  CHECK(network_on("nonblocking", 48).switches == 19);  // as topo design --hosts 384
  CHECK(network_on("nonblocking", 8).switches == 1);
  for (const char* kind : {"nonblocking", "2:1", "4:1", "12 leaves and 3 spines", "rail-optimized", "2:1 on rails",
                           "16 leaves and 3 spines on rails", "rail-only"}) {
    CAPTURE(kind);
    const NetworkDesign design = design_network(read_network_kind(kind, "--network"), {48, 8, 64});
    const BoughtNetwork bought = network_on(design.fabric({}), 48);
    CHECK(bought.switches == design.switches);
    CHECK(bought.cables == design.cables());
  }
  const BoughtNetwork unknown = network_on("dragonfly", 20);
  CHECK(unknown.switches == 0);
  CHECK(unknown.unknown == "network, since the parts of dragonfly are not known with switches of 64 ports");
}

TEST_CASE("a purchase whose fabric has unknown parts says that its network is not counted", "[costs]") {
  const Catalog catalog;
  ClusterSpec spec;
  spec.nodes = 20;
  spec.node = read_node(catalog.resolve("node", Node::scalar_node("dgx-b200")), catalog);
  read_fabric(spec, catalog.resolve("fabric", Node::scalar_node("dragonfly")), catalog);
  const Prices prices =
      read_prices(parse_document("purchase: {node: {dgx-b200: 1000}, switch: 30, cable: 1}\n", "p.yaml"));
  Ownership all = cost_of_ownership(prices.purchase, {{"dgx-b200", "b200-sxm-180gb", 20, 8, 8}}, 1000, 1, 0);
  CHECK(all.price() > 20000);
  set_fabric_network(spec, prices.purchase, all);
  CHECK(all.price() == 20000);
  CHECK(all.yearly.at("depreciation") == Approx(20000 / 4.0));
  CHECK(all.purchase_prices.contains("network, since the parts of dragonfly are not known with switches of 64 ports"));
}

TEST_CASE("switches, cables and storage that are owned already cost nothing, and only the others are bought",
          "[costs]") {
  const auto bought = [](const std::string& owned) {
    const Result r = simulate_training(
        read_scenario_text("cluster: {node: dgx-h100, nodes: 9, fabric: nonblocking}\n"
                           "model: {base: gpt2, n_layer: 2}\nplan: {micro_batch_size: 1, global_batch_size: 72}\n"
                           "prices: {purchase: {node: {dgx-h100: 1000}, switch: {1: 100, 4: 90}, cable: 1, storage: "
                           "500, owned: {dgx-h100: "
                           "8" +
                               owned + "}}}\n",
                           "x.yaml"));
    return r.money->ownership->purchase_prices;
  };
  // 72 adapters: three leaves with 24 uplinks each, and two spines of 64 ports; 72 + 72 cables.
  const auto all = bought("");
  const double switches = all.at("switches") / 90, cables = all.at("cables");
  CHECK(all.at("storage") == 500);
  CHECK(switches == 5);
  CHECK(cables == 144);
  const auto beside = bought(", switch: 2, cable: 100, storage: 1");
  CHECK(beside.at("nodes") == 1000);
  CHECK(beside.at("switches") == 3 * 100);  // the price by quantity is that of the bought ones
  CHECK(beside.at("cables") == 44);
  CHECK(beside.at("storage") == 0);
  const auto nothing = bought(", switch: 9, cable: 900, storage: 1");
  CHECK(nothing.at("switches") + nothing.at("cables") + nothing.at("storage") == 0);
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(bought(", switch: -1"), Contains("x.yaml:4:") && Contains("owned"));
  CHECK_THROWS_WITH(bought(", switches: 1"), Contains("x.yaml:4:") && Contains("unknown node \"switches\""));
}

TEST_CASE("a job on owned nodes beside bought ones of another type pays only for the bought ones", "[costs]") {
  const Result r = simulate_training(read_scenario_text(
      "cluster: {nodes: [{count: 2, node: dgx-a100}, {count: 2, node: dgx-h100}], fabric: nonblocking}\n"
      "model: {base: gpt2, n_layer: 2}\nplan: {micro_batch_size: 1, global_batch_size: 32}\n"
      "prices: {purchase: {node: {dgx-a100: 1000, dgx-h100: 3000}, owned: {dgx-a100: 2}, years: 4}}\n",
      "x.yaml"));
  REQUIRE(r.money->ownership);
  CHECK(r.gpus() == 32);
  CHECK(r.money->ownership->purchase_prices.at("nodes") == 2 * 3000);
  CHECK(r.money->ownership->owned_nodes == 2);
}

}  // namespace scenarios_test_bought_network
