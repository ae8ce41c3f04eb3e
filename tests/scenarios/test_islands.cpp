// Nodes with a fabric of their own, which cables join with the cluster's fabric.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>

#include "models/energy/prices.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/bought_network.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/fold_check.hpp"
#include "tests/user_errors.hpp"
#include "topologies/drawings/topology_text.hpp"

namespace scenarios_test_islands {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

std::string joined(const std::string& fabric, const std::string& links, const std::string& other = "nonblocking",
                   const std::string& node = "dgx-a100", const std::string& other_node = "dgx-a100") {
  return fmt::format(
      "cluster: {{fabric: {}, nodes: [{{count: 2, node: {}}}, {{count: 2, node: {}, fabric: {}, links: {}}}]}}\n",
      fabric, node, other_node, other, links);
}

std::string alike(const std::string& fabric) {
  return fmt::format("cluster: {{fabric: {}, nodes: 4, node: dgx-a100}}\n", fabric);
}

/// Plans whose collectives or pipelines cross the islands, with simulated and modelled collectives.
const std::vector<std::string> kPlans = {"collectives: flows",
                                         "collectives: messages",
                                         "collectives: modelled",
                                         "collectives: messages, pipeline_parallel: 2, tensor_parallel: 4",
                                         "collectives: modelled, pipeline_parallel: 2, tensor_parallel: 4",
                                         "collectives: flows, data_parallel: {zero_stage: 3}"};

Scenario training(const std::string& cluster, const std::string& plan) {
  return read_scenario_text(
      cluster +
          "model: {base: gpt2, n_layer: 4}\nsoftware: megatron-core\nplan: {global_batch_size: 64, "
          "micro_batch_size: 1, seq_length: 512, precision: bf16, " +
          plan + "}\n",
      "islands.yaml");
}

double step(const std::string& cluster, const std::string& plan) {
  return simulate(training(cluster, plan), {.critical_path = false}).step_time.value;
}

std::string links(double gbit, double us, int count = 8) {
  return fmt::format("{{count: {}, rate: {} Gbit/s, latency: {} us}}", count, gbit, us);
}

}  // namespace

TEST_CASE("two islands with cables of a leaf's uplinks are one fabric of two leaves", "[islands]") {
  // Cables between the islands have the latency of the spines in place of that of a switch.
  const std::string one_switch = "{base: nonblocking, switch_latency: 300 ns}";
  for (const double ratio : {1.0, 4.0, 64.0})
    for (const std::string& plan : kPlans) {
      if (plan.find("modelled") != std::string::npos) continue;  // the library's model knows no second level
      CAPTURE(ratio, plan);
      const std::string leaves = fmt::format(
          "{{base: leaf-spine, switch_latency: 300 ns, levels: [{{down: 16, oversubscription: {}}}]}}", ratio);
      CHECK(step(joined(one_switch, links(200 * 16 / ratio / 8, 0.3), one_switch), plan) ==
            Approx(step(alike(leaves), plan)).epsilon(1e-12));
    }
}

TEST_CASE("cables that are no limit make two islands one fabric", "[islands]") {
  const std::string fabric = "{base: nonblocking, switch_latency: 0 s}";
  for (const std::string& plan : kPlans) {
    CAPTURE(plan);
    CHECK(step(joined(fabric, links(1e6, 0), fabric), plan) == Approx(step(alike(fabric), plan)).epsilon(1e-12));
  }
}

TEST_CASE("slower cables between islands, or later ones, are never faster", "[islands]") {
  for (const std::string& plan : kPlans) {
    double last_step = 0;
    for (const double gbit : {3200.0, 400.0, 100.0, 25.0, 1.0}) {
      CAPTURE(plan, gbit);
      const double now = step(joined("leaf-spine", links(gbit, 1)), plan);
      CHECK(now >= last_step * (1 - 1e-12));
      last_step = now;
    }
    const double far = step(joined("leaf-spine", links(1, 2000)), plan);
    CAPTURE(plan, far, last_step);
    CHECK(far > last_step);
  }
}

TEST_CASE("ranks of islands fold exactly", "[islands][folding]") {
  int folded = 0;  // a ring through unlike ranks has no equal ones
  for (const std::string other : {"dgx-a100", "dgx-h100"})
    for (const std::string& plan : kPlans) {
      CAPTURE(other, plan);
      const Scenario s = training(joined("leaf-spine", links(50, 3), "nonblocking", "dgx-a100", other), plan);
      const FoldCheck check = check_folding(s, trainyard::plan(s));
      CHECK(check.difference.empty());
      folded += check.unfolded_reason.empty() ? 1 : 0;
    }
  CHECK(folded > 0);
}

TEST_CASE("an island has switches, cables and rows of its own", "[islands]") {
  const Catalog catalog;
  const Node document = parse_document(
      joined("{base: leaf-spine, levels: [{down: 8}]}", links(400, 2), "nonblocking", "dgx-a100", "dgx-h100"),
      "i.yaml");
  const ClusterSpec spec = read_cluster(*document.find("cluster"), catalog);
  const DeviceGraph graph = build_cluster(spec);
  const std::string lines = fabric_lines(graph, spec);
  CAPTURE(lines);
  CHECK_THAT(
      lines,
      Contains("cables of island 1 (2 x dgx-h100), 8 links at 50.0 GB/s, 2.00 us, to the fabric of the first nodes"));
  CHECK_THAT(lines, Contains("level 1: 2 switches (leaf), 16 links down to HCAs at 25.0 GB/s"));
  CHECK_THAT(lines, Contains("island 1, level 1: island1-fabric, 16 links down to HCAs at 50.0 GB/s"));
  int cables = 0;
  for (std::size_t wire = 0; wire < graph.wires().size(); wire += 2)
    if (graph.wires()[wire].name == "island1-fabric -> spines") {
      ++cables;
      CHECK(graph.wires()[wire].capacity.value == 8 * 50e9);
      const Picoseconds switches{(spec.switch_latency.count + spec.others.front().island->switch_latency.count) / 2};
      CHECK(graph.ends(static_cast<LinkId>(wire)).latency.count == 2000000 + switches.count);
    }
  CHECK(cables == 1);
  CHECK_THAT(describe(spec), Contains("; dgx-h100 on nonblocking of their own, over 8 x 400 Gbit/s"));
}

TEST_CASE("a bought network has the switches of both islands and the cables between them", "[islands][costs]") {
  const Catalog catalog;
  const auto network = [&catalog](const std::string& owned) {
    const Node document =
        parse_document(joined("nonblocking", links(400, 2, 6), "nonblocking", "dgx-a100", "dgx-h100"), "i.yaml");
    const ClusterSpec spec = read_cluster(*document.find("cluster"), catalog);
    const Prices prices = read_prices(parse_document(
        "{purchase: {node: {dgx-h100: 3, dgx-a100: 1}, switch: 10, switch_ports: 64, cable: 1, years: 4" + owned + "}}",
        "p.yaml"));
    return bought_network(spec, prices.purchase);
  };
  CHECK(network("").switches == 2);
  CHECK(network("").cables == 2 * 16 + 6);
  const std::string fabric = ", fabric: nonblocking, links: {count: 6, rate: 400 Gbit/s, latency: 2 us}}}";
  CHECK(network(", owned: {dgx-a100: {nodes: 2" + fabric).switches == 1);
  CHECK(network(", owned: {dgx-a100: {nodes: 2" + fabric).cables == 16 + 6);
  CHECK(network(", owned: {dgx-a100: {nodes: 1" + fabric).switches == 2);  // the others need a fabric
}

TEST_CASE("switches of each island can be taken out, and only its own uplinks get fewer", "[islands]") {
  const Catalog catalog;
  const std::string clos = "{base: leaf-spine, levels: [{down: 8}]}";  // each node has a leaf, each leaf eight uplinks
  const auto uplinks = [&](const std::string& first, const std::string& second, const std::string& taken_out) {
    std::string text = joined(first, links(400, 2), second);
    text.insert(text.rfind('}'), ", taken_out: [" + taken_out + "]");
    const Node document = parse_document(text, "i.yaml");
    const DeviceGraph graph = build_cluster(read_cluster(*document.find("cluster"), catalog));
    std::map<std::string, double> rates;
    for (const auto& wire : graph.wires()) rates[wire.name] = wire.capacity.value;
    return rates;
  };
  for (const std::string& first : {clos, std::string("nonblocking")}) {
    const std::map<std::string, double> intact = uplinks(first, clos, ""),
                                        less = uplinks(first, clos, "island1-spine3"),
                                        cut = uplinks(first, clos, "island1-leaf0 - island1-spine1");
    CHECK(less.at("island1-leaf0 -> island1-spines") == intact.at("island1-leaf0 -> island1-spines") * 7 / 8);
    CHECK(less.at("island1-leaf1 -> island1-spines") == intact.at("island1-leaf1 -> island1-spines") * 7 / 8);
    CHECK(cut.at("island1-leaf0 -> island1-spines") == intact.at("island1-leaf0 -> island1-spines") * 7 / 8);
    CHECK(cut.at("island1-leaf1 -> island1-spines") == intact.at("island1-leaf1 -> island1-spines"));
    for (const auto& [name, rate] : intact)
      if (name.find("island1-") == std::string::npos) CHECK(less.at(name) == rate);
  }
  CHECK(uplinks(clos, clos, "spine3").at("leaf0 -> spines") == uplinks(clos, clos, "").at("leaf0 -> spines") * 7 / 8);
  CHECK_THAT(test::user_error([&] { uplinks(clos, clos, "island1-spine9"); }),
             Contains("unknown device \"island1-spine9\"; did you mean \"island1-spine"));
  CHECK_THAT(test::user_error([&] { uplinks(clos, clos, "island2-spine1"); }),
             Contains("unknown device \"island2-spine1\""));
}

TEST_CASE("impossible islands are refused", "[islands][errors]") {
  const auto error = [](const std::string& cluster) {
    return test::user_error([&] { read_cluster(*parse_document(cluster, "i.yaml").find("cluster"), Catalog()); });
  };
  CHECK(error("cluster: {fabric: nonblocking, nodes: [{count: 2, node: dgx-a100}, {count: 2, node: dgx-a100, fabric: "
              "nonblocking}]}\n") ==
        "i.yaml:1:68: cluster.nodes.1: missing key \"links\", the cables between this fabric and cluster.fabric; "
        "expected "
        "{count: 8, rate: 400 Gbit/s, latency: 1 us} or such");
  CHECK_THAT(error(joined("nonblocking", "{count: 8, rate: 400 Gbit/s}")),
             Contains("cluster.nodes.1.links: missing key \"latency\""));
  CHECK_THAT(error(joined("nonblocking", "{count: 0, rate: 400 Gbit/s, latency: 0 s}")),
             Contains("cluster.nodes.1.links.count: 0 is too small; the least is 1"));
  CHECK_THAT(error(joined("nonblocking", "{count: 1, rate: 400 Gbit/s, latency: 0 s, cables: 3}")),
             Contains("unknown key \"cables\" in cluster.nodes.1.links"));
  CHECK_THAT(
      error("cluster: {fabric: nonblocking, nodes: [{count: 2, node: dgx-a100}, {count: 2, node: dgx-a100, links: " +
            links(1, 1) + "}]}\n"),
      Contains("these nodes have no other fabric than cluster.fabric; expected `fabric` beside it"));
  CHECK_THAT(error("cluster: {fabric: nonblocking, nodes: [{count: 2, node: dgx-a100, fabric: nonblocking}, {count: 2, "
                   "node: dgx-a100}]}\n"),
             Contains("unknown key \"fabric\" in cluster.nodes.0"));
  for (const std::string fabric : {"torus-2d", "rail-only", "{base: leaf-spine, routing: ecmp}"}) {
    CHECK_THAT(error(joined(fabric, links(1, 1))),
               Contains("has no switch at its top, where cables to another fabric could end; expected nonblocking"));
    CHECK_THAT(error(joined("nonblocking", links(1, 1), fabric)), Contains("cluster.nodes.1.fabric: "));
  }
  CHECK_THAT(
      error("cluster: {fabric: nonblocking, nodes: [{count: 1, node: dgx-a100}, {count: 1, node: dgx-a100, fabric: "
            "nonblocking, links: " +
            links(1, 1) + "}, {count: 1, node: dgx-h100}]}\n"),
      Contains("cluster.nodes.2: nodes of cluster.fabric stand behind those with a fabric of their own "
               "(cluster.nodes.1); expected before them"));
  CHECK_THAT(error(joined("{base: nonblocking, sharp: true}", links(1, 1))), Contains("cluster.fabric: sharp: "));
}

}  // namespace scenarios_test_islands
