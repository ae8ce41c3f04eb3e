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
#include "topologies/routing.hpp"

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
  CHECK_THAT(
      error(
          "cluster: {fabric: tpu-v4-torus, nodes: [{count: 16, node: tpu-v4-host}, {count: 2, node: dgx-a100, fabric: "
          "nonblocking, links: " +
          links(1, 1) + "}]}\n"),
      Contains("cluster.fabric: no cables can lead from torus to another fabric: no collective library joins "
               "chips over their own links with nodes of another fabric; expected several slices of one fabric"));
  const std::string graph =
      "{type: graph, switch_latency: 1 us, switches: [a, b], links: [{from: a, to: b, rate: 1 "
      "Gbit/s}]";
  CHECK_THAT(error(joined("nonblocking", links(1, 1), graph + "}")),
             Contains("cluster.nodes.1.fabric: no cables can lead from graph to another fabric: it does not say where "
                      "they end; expected `border: NAME`, one of its switches: a, b"));
  CHECK_THAT(error(joined("nonblocking", links(1, 1), graph + ", border: c}")), Contains("no switch is named \"c\""));
  CHECK_THAT(
      error("cluster: {fabric: nonblocking, nodes: [{count: 1, node: dgx-a100}, {count: 1, node: dgx-a100, fabric: "
            "nonblocking, links: " +
            links(1, 1) + "}, {count: 1, node: dgx-h100}]}\n"),
      Contains("cluster.nodes.2: nodes of cluster.fabric stand behind those with a fabric of their own "
               "(cluster.nodes.1); expected before them"));
  CHECK_THAT(error(joined("{base: nonblocking, sharp: true}", links(1, 1))), Contains("cluster.fabric: sharp: "));
}

namespace {

/// A fabric that is stated cable by cable, for two nodes of eight adapters from `first_node` on.
std::string stated_fabric(int first_node) {
  std::string cables = "{from: a, to: b, rate: 800 Gbit/s}";
  for (int node = first_node; node < first_node + 2; ++node)
    for (int hca = 0; hca < 8; ++hca)
      cables += fmt::format(", {{from: node{}/hca{}, to: {}}}", node, hca, node == first_node ? "a" : "b");
  return "{type: graph, switch_latency: 1 us, border: b, switches: [b, a], links: [" + cables + "]}";
}

/// Lists the fabrics that route messages in a way of their own, for two nodes from `first_node` on.
std::vector<std::string> routed_fabrics(int first_node) {
  const std::string dragonfly = "{base: dragonfly, switches_a_group: 2, hosts_a_switch: 2, global_links: 2";
  return {"{base: leaf-spine-ecmp, levels: [{down: 8}]}",
          "{base: leaf-spine-ecmp, levels: [{down: 8}], queue_pairs: 4}",
          "{base: leaf-spine-ecmp, levels: [{down: 4}, {down: 2}]}",
          "{base: leaf-spine, levels: [{down: 8}], routing: adaptive}",
          "{base: leaf-spine, levels: [{down: 8}], routing: flowlets}",
          "rail-only",
          "{base: rail-only, levels: [{down: 1}]}",
          dragonfly + "}",
          dragonfly + ", routing: valiant}",
          "torus-2d",
          "torus-3d",
          "ring",
          "ethernet",
          "{base: ethernet, hub: true}",
          stated_fabric(first_node)};
}

/// A cluster whose graph, spec and routes live together.
struct RoutedCluster {
  explicit RoutedCluster(const std::string& text)
      : spec(read_cluster(*parse_document(text, "i.yaml").find("cluster"), Catalog())),
        graph(build_cluster(spec)),
        routing(graph, spec),
        gpus(graph.devices_of_kind(DeviceKind::gpu)) {}
  ClusterSpec spec;
  DeviceGraph graph;
  Routing routing;
  std::vector<DeviceId> gpus;

  Route route(std::size_t from, std::size_t to) {
    return routing.route(gpus[from], gpus[to], PathClass::automatic, Picoseconds{});
  }
};

/// The part of a message that enters each device, less that which leaves it.
std::map<DeviceId, double> arrivals(const RoutedCluster& cluster, std::span<const LinkUse> links) {
  std::map<DeviceId, double> found;
  for (const LinkUse& use : links)
    if (cluster.graph.is_wire(use.link)) {
      const DeviceGraph::End end = cluster.graph.ends(use.link);
      found[end.from] -= use.weight;
      found[end.to] += use.weight;
    }
  return found;
}

}  // namespace

TEST_CASE("islands have any fabric that joins a cluster, and wider cables between them are never slower", "[islands]") {
  for (const bool is_first : {true, false})
    for (const std::string& fabric : routed_fabrics(is_first ? 0 : 2))
      for (const std::string plan : {"collectives: flows", "collectives: messages, pipeline_parallel: 2"}) {
        CAPTURE(is_first, fabric, plan);
        const auto between = [&](double gbit) {
          return step(is_first ? joined(fabric, links(gbit, 1)) : joined("nonblocking", links(gbit, 1), fabric), plan);
        };
        const double narrow = between(1), wide = between(1e5);
        CHECK(wide > 0);
        CHECK(wide < narrow);
      }
}

TEST_CASE("each byte between two islands leaves once, crosses their cables once and arrives once", "[islands]") {
  const std::vector<std::string> firsts = routed_fabrics(0), seconds = routed_fabrics(2);
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const std::string &first = firsts[i], &second = seconds[(i + 3) % seconds.size()];
    CAPTURE(first, second);
    RoutedCluster cluster(joined(first, links(400, 1), second));
    const auto cables = [&cluster](std::span<const LinkUse> all) {
      double weight = 0;
      for (const LinkUse& use : all)
        if (cluster.graph.is_wire(use.link)) {
          const DeviceGraph::End end = cluster.graph.ends(use.link);
          const Device &a = cluster.graph.devices()[end.from], &b = cluster.graph.devices()[end.to];
          if (a.kind == b.kind && a.kind == DeviceKind::network_switch && a.island != b.island) weight += use.weight;
        }
      return weight;
    };
    for (std::size_t from = 0; from < cluster.gpus.size(); from += 3)
      for (std::size_t to = 0; to < cluster.gpus.size(); to += 3) {
        if (from == to) continue;
        const Route route = cluster.route(from, to);
        CAPTURE(from, to);
        REQUIRE(route.reachable);
        std::vector<Route> all{route};
        if (route.alternatives) all = *route.alternatives;
        for (const Route& each : all) {
          CHECK(cables(each.links) == Approx((from < 16) != (to < 16) ? 1 : 0).margin(1e-12));
          for (const auto& [device, net] : arrivals(cluster, each.links)) {
            const double expected = device == cluster.gpus[from] ? -1 : device == cluster.gpus[to] ? 1 : 0;
            CHECK(net == Approx(expected).margin(1e-9));
          }
        }
      }
  }
}

TEST_CASE("a job on one island takes as long as on the same cluster alone", "[islands]") {
  const std::string alone = "cluster: {{fabric: {}, nodes: 2, node: dgx-a100}}\n";
  const std::vector<std::string> firsts = routed_fabrics(0), seconds = routed_fabrics(2);
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    CAPTURE(firsts[i]);
    const std::string own = fmt::format(fmt::runtime(alone), firsts[i]);
    for (const std::string plan : {"collectives: flows", "collectives: messages, pipeline_parallel: 2"}) {
      CAPTURE(plan);
      const std::string half = plan + ", idle_devices: allowed, data_parallel: {size: " +
                               (plan.find("pipeline") == std::string::npos ? "16}" : "8}");
      CHECK(step(joined(firsts[i], links(400, 1)), half) == Approx(step(own, half)).epsilon(1e-9));
    }
    // The second island has the routes of the cluster alone: links correspond one to one, with their rates and latencies.
    RoutedCluster island(joined("nonblocking", links(400, 1), seconds[i])), cluster(own);
    std::map<LinkId, LinkId> there, back;
    for (std::size_t from = 0; from < 16; ++from)
      for (std::size_t to = 0; to < 16; ++to) {
        if (from == to) continue;
        const Route mine = island.route(from + 16, to + 16), theirs = cluster.route(from, to);
        CHECK(mine.latency.count == theirs.latency.count);
        CHECK(mine.flowlet.value == theirs.flowlet.value);
        REQUIRE(mine.links.size() == theirs.links.size());
        REQUIRE((mine.alternatives ? mine.alternatives->size() : 1) ==
                (theirs.alternatives ? theirs.alternatives->size() : 1));
        for (std::size_t l = 0; l < mine.links.size(); ++l) {
          const LinkUse &a = mine.links[l], &b = theirs.links[l];
          CHECK(a.weight == b.weight);
          CHECK(island.graph.links()[a.link].capacity.value == cluster.graph.links()[b.link].capacity.value);
          CHECK(there.try_emplace(a.link, b.link).first->second == b.link);
          CHECK(back.try_emplace(b.link, a.link).first->second == a.link);
        }
      }
  }
}

TEST_CASE("ranks of islands with routes of their own fold exactly", "[islands][folding]") {
  for (const std::string& fabric : routed_fabrics(0)) {
    CAPTURE(fabric);
    const Scenario s = training(joined(fabric, links(50, 3)), "collectives: messages");
    CHECK(check_folding(s, trainyard::plan(s)).difference.empty());
  }
}

TEST_CASE("a fabric without one top has a border switch, which is shown, can fail and is bought", "[islands][costs]") {
  for (const std::string fabric : {"{base: leaf-spine-ecmp, levels: [{down: 8}]}", "rail-only", "torus-2d", "ring"}) {
    CAPTURE(fabric);
    const RoutedCluster cluster(joined(fabric, links(400, 2)));
    double rate = 0;
    for (const auto& wire : cluster.graph.wires())
      if (const std::string name = wire.name; name.ends_with(" -> border") && !name.starts_with("island"))
        rate += wire.capacity.value;
    CHECK(rate == Approx(8 * 50e9));  // its spines, rails or routers share the cables evenly
    const std::string lines = fabric_lines(cluster.graph, cluster.spec);
    CHECK_THAT(lines, Contains("border"));
    CHECK_THAT(lines, Contains("cables of island 1 (2 x dgx-a100), 8 links at 50.0 GB/s"));
  }
  const Prices prices = read_prices(
      parse_document("{purchase: {node: {dgx-a100: 1}, switch: 10, switch_ports: 20, cable: 1, years: 4}}", "p.yaml"));
  const RoutedCluster rails(joined("rail-only", links(400, 2, 6)));
  const BoughtNetwork network = bought_network(rails.spec, prices.purchase);
  CHECK(network.switches == 8 + 1 + 2);      // eight rails and their border; 16 adapters and 6 cables take two switches
  CHECK(network.cables == 16 + 6 + 6 + 16);  // to the border, and from there to the other fabric
  std::string broken = joined("{base: leaf-spine-ecmp, levels: [{down: 8}]}", links(400, 1));
  const double unbroken = step(broken, "collectives: messages");
  broken.insert(broken.rfind('}'), ", taken_out: [spine3]");
  CHECK(step(broken, "collectives: messages") >= unbroken * (1 - 1e-12));
}

}  // namespace scenarios_test_islands
