#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <numeric>
#include <random>

#include "sim/observers/traffic.hpp"
#include "tests/support.hpp"
#include "tests/topologies/bare_hosts.hpp"
#include "topologies/analysis/fabric_check.hpp"
#include "topologies/analysis/fabric_cuts.hpp"
#include "topologies/analysis/fabric_simulation.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_fabric_check {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ClusterSpec checked_hosts(int count, const std::vector<FabricLevel>& levels) {
  ClusterSpec spec = bare_hosts(count, clos_of(levels));
  spec.node.hca_latency = {500000};
  spec.switch_latency = {100000};
  return spec;
}

FabricCheck fabric_check_of(const ClusterSpec& spec) {
  return check_fabric(build_cluster(spec), spec.fabric->levels());
}

/// The time until the GPUs of the pattern's HCAs have sent 10 GB each (one second alone).
double pattern_time(const ClusterSpec& spec, const std::vector<HcaPair>& pairs) {
  ClusterMachine machine(spec, SoftwareStack{});
  const auto rank = [&machine](DeviceId hca) {
    return static_cast<Actor>(machine.graph().devices()[static_cast<std::size_t>(hca)].node);
  };
  Programs all(static_cast<std::size_t>(spec.nodes));
  for (const HcaPair& pair : pairs) {
    const Actor from = rank(pair.from), to = rank(pair.to);
    all.at(position(from)) = std::make_unique<ListProgram>(std::vector<Op>{send(1e10)}, std::vector<Actor>{to});
    all.at(position(to)) = std::make_unique<ListProgram>(std::vector<Op>{recv()}, std::vector<Actor>{from});
  }
  Traffic traffic(machine.links());  // checks every link when the run ends
  return run_programs(machine, std::move(all), {{&traffic}}).end.value;
}

void check_counterexample(const ClusterSpec& spec, double slowdown) {
  const FabricCheck check = fabric_check_of(spec);
  CHECK(check.nonblocking == Nonblocking::no);
  REQUIRE(check.counterexample);
  CHECK(check.counterexample->slowdown == near(slowdown));
  DeviceGraph graph = build_cluster(spec);
  CHECK(simulated_slowdown(graph, check.counterexample->pairs) == near(slowdown));
  ClusterSpec fast = spec;
  fast.node.hca_latency = fast.switch_latency = {};
  CHECK(pattern_time(fast, check.counterexample->pairs) == near(slowdown));
}

using FlowTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct FlowEdge {
  double capacity = 0, residual = 0;
  FlowTraits::edge_descriptor reverse;
};
using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, FlowEdge>;

/// Max-flow from `from` to all other HCAs, by Boost.Graph.
double max_flow(const DeviceGraph& graph, const std::vector<DeviceId>& from) {
  FlowGraph flow(graph.devices().size() + 2);
  const std::size_t source = graph.devices().size(), sink = source + 1;
  const auto add = [&flow](std::size_t a, std::size_t b, double capacity) {
    const auto edge = boost::add_edge(a, b, FlowEdge{capacity, 0, {}}, flow).first;
    const auto back = boost::add_edge(b, a, FlowEdge{0, 0, edge}, flow).first;
    flow[edge].reverse = back;
  };
  for (LinkId link = 0; link < static_cast<LinkId>(graph.links().size()); ++link)
    add(static_cast<std::size_t>(graph.ends(link).from), static_cast<std::size_t>(graph.ends(link).to),
        graph.links()[static_cast<std::size_t>(link)].capacity.value);
  for (const DeviceId hca : graph.devices_of_kind(DeviceKind::hca))
    if (std::find(from.begin(), from.end(), hca) != from.end())
      add(source, static_cast<std::size_t>(hca), 1e15);
    else
      add(static_cast<std::size_t>(hca), sink, 1e15);
  return boost::edmonds_karp_max_flow(flow, source, sink,
                                      boost::capacity_map(boost::get(&FlowEdge::capacity, flow))
                                          .residual_capacity_map(boost::get(&FlowEdge::residual, flow))
                                          .reverse_edge_map(boost::get(&FlowEdge::reverse, flow)));
}

/// Switches in a random tree with links of 1 to 4 times an HCA's rate, with HCAs anywhere.
DeviceGraph random_tree(std::mt19937& random, int hcas) {
  const auto upto = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  DeviceGraph graph;
  std::vector<DeviceId> switches;
  for (int s = 0; s < 1 + upto(6); ++s) {
    const DeviceId below = graph.add({"switch" + std::to_string(s), DeviceKind::network_switch, -1, s});
    if (s > 0)
      graph.connect(below, switches[static_cast<std::size_t>(upto(s))],
                    {LinkKind::uplink, BytesPerSecond{1e9 * (1 + upto(4))}, {100000 + 1000 * upto(100)}});
    switches.push_back(below);
  }
  for (int h = 0; h < hcas; ++h)
    graph.connect(graph.add({"node" + std::to_string(h) + "/hca0", DeviceKind::hca, h, 0}),
                  switches[static_cast<std::size_t>(upto(static_cast<int>(switches.size())))],
                  {LinkKind::hca, BytesPerSecond{1e9}, {500000 + 1000 * upto(100)}});
  return graph;
}

std::vector<DeviceId> members(const std::vector<DeviceId>& hcas, unsigned set) {
  std::vector<DeviceId> chosen;
  for (std::size_t i = 0; i < hcas.size(); ++i)
    if ((set >> i) & 1U) chosen.push_back(hcas[i]);
  return chosen;
}

/// The largest load of a link divided by its capacity, over all permutations at full rate.
double worst_permutation(DeviceGraph& graph) {
  const std::vector<DeviceId> hcas = graph.devices_of_kind(DeviceKind::hca);
  const std::size_t n = hcas.size();
  std::vector<std::vector<LinkId>> paths(n * n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      if (a != b) paths[a * n + b] = graph.path(hcas[a], hcas[b], PathClass::fabric).value();
  std::vector<std::size_t> to(n);
  std::iota(to.begin(), to.end(), 0U);
  double worst = 0;
  do {
    std::vector<double> load(graph.links().size(), 0);
    for (std::size_t a = 0; a < n; ++a)
      for (const LinkId link : paths[a * n + to[a]]) load[static_cast<std::size_t>(link)] += 1e9;
    for (std::size_t l = 0; l < load.size(); ++l) worst = std::max(worst, load[l] / graph.links()[l].capacity.value);
  } while (std::next_permutation(to.begin(), to.end()));
  return worst;
}

}  // namespace

TEST_CASE("fabrics without oversubscription are proved nonblocking", "[topologies][check]") {
  for (const auto& levels :
       {std::vector<FabricLevel>{}, std::vector<FabricLevel>{{4, 1}}, std::vector<FabricLevel>{{2, 1}, {4, 1}},
        std::vector<FabricLevel>{{2, 0.5}, {4, 2}}}) {  // more uplinks than needed below make up for fewer above
    const FabricCheck check = fabric_check_of(checked_hosts(16, levels));
    CHECK(check.nonblocking == Nonblocking::yes);
    CHECK_FALSE(check.counterexample);
    REQUIRE(check.bisection);
    CHECK(check.bisection->value == near(8e10));
    CHECK(check.bisection_exact);
    CHECK(check.oversubscription.size() == levels.size());
    CHECK(check.diameter_hops == 2 + 2 * static_cast<int>(levels.size()));
    CHECK(check.diameter_latency->count == 1000000 + 100000 * (1 + 2 * static_cast<int>(levels.size())));
  }
}

TEST_CASE("oversubscription is refuted by a pattern that the simulator confirms", "[topologies][check]") {
  check_counterexample(checked_hosts(16, {{4, 2}}), 2);
  check_counterexample(checked_hosts(16, {{2, 1}, {2, 4}}), 4);
  check_counterexample(checked_hosts(16, {{4, 1.5}}), 1.5);
  check_counterexample(checked_hosts(16, {{4, 1}, {2, 3}}), 3);
}

TEST_CASE("a link slower than one HCA slows a pair alone as well", "[topologies][check]") {
  const ClusterSpec spec = checked_hosts(16, {{4, 8}});  // half of an HCA's rate up
  const FabricCheck check = fabric_check_of(spec);
  REQUIRE(check.counterexample);
  CHECK(check.counterexample->slowdown == near(4));
  DeviceGraph graph = build_cluster(spec);
  CHECK(simulated_slowdown(graph, check.counterexample->pairs) == near(4));
}

TEST_CASE("the pattern fills the violated cut and uses no HCA twice", "[topologies][check]") {
  const ClusterSpec spec = checked_hosts(16, {{2, 1}, {2, 4}});
  const DeviceGraph graph = build_cluster(spec);
  const FabricCheck check = check_fabric(graph, spec.fabric->levels());
  REQUIRE(check.counterexample);
  const BlockedPattern& pattern = *check.counterexample;
  CHECK(graph.devices()[static_cast<std::size_t>(pattern.below)].name == "pod0");
  CHECK(pattern.link == "pod0 -> core");
  CHECK(pattern.pairs.size() == 4);
  std::vector<DeviceId> used;
  for (const HcaPair& pair : pattern.pairs) used.insert(used.end(), {pair.from, pair.to});
  std::sort(used.begin(), used.end());
  CHECK(std::adjacent_find(used.begin(), used.end()) == used.end());
}

TEST_CASE("oversubscription counts the existing HCAs", "[topologies][check]") {
  // 2:1, but no more than two HCAs are ever on the other side.
  const FabricCheck check = fabric_check_of(checked_hosts(6, {{4, 2}}));
  CHECK(check.nonblocking == Nonblocking::yes);
  REQUIRE(check.oversubscription.size() == 1);
  CHECK(check.oversubscription[0].name == "leaf");
  CHECK(check.oversubscription[0].groups == 2);
  CHECK(check.oversubscription[0].configured == 2);
  CHECK(check.oversubscription[0].attached == near(2));
  const FabricCheck few = fabric_check_of(checked_hosts(8, {{2, 1}, {8, 2}}));
  CHECK(few.oversubscription.size() == 1);  // one pod: nothing above it
  const FabricCheck two = fabric_check_of(checked_hosts(8, {{2, 2}, {2, 2}}));
  REQUIRE(two.oversubscription.size() == 2);
  CHECK(two.oversubscription[1].name == "pod");
  CHECK(two.oversubscription[1].attached == near(2));
  CHECK(two.oversubscription[1].of_hcas == near(4));
}

TEST_CASE("bisection bandwidth is that of the halves with the least capacity between them", "[topologies][check]") {
  CHECK(fabric_check_of(checked_hosts(16, {{4, 2}})).bisection->value == near(4e10));
  CHECK(fabric_check_of(checked_hosts(16, {{2, 1}, {2, 4}})).bisection->value == near(2e10));
  CHECK(fabric_check_of(checked_hosts(5, {})).bisection->value == near(2e10));
  // Twelve hosts on three leaves of four; a half is one leaf and half of another, 2:1.
  CHECK(fabric_check_of(checked_hosts(12, {{4, 2}})).bisection->value == near(4e10));
}

TEST_CASE("random trees: the check agrees with all permutations, all halves, max-flow and all routes",
          "[topologies][check]") {
  std::mt19937 random(1);
  int blocked = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    DeviceGraph graph = random_tree(random, 2 + static_cast<int>(random() % 6U));
    const std::vector<DeviceId> hcas = graph.devices_of_kind(DeviceKind::hca);
    const FabricCheck check = check_fabric(graph);
    const double worst = worst_permutation(graph);
    REQUIRE(check.nonblocking != Nonblocking::unknown);
    CHECK((check.nonblocking == Nonblocking::yes) == (worst <= 1 + 1e-12));
    if (check.counterexample) {
      ++blocked;
      CHECK(check.counterexample->slowdown == near(worst));  // no link is slower than an HCA
      if (blocked <= 15) CHECK(simulated_slowdown(graph, check.counterexample->pairs) == near(worst));
    }
    double least = 1e18;
    for (unsigned set = 1; set + 1 < 1U << hcas.size(); ++set) {
      const std::vector<DeviceId> side = members(hcas, set);
      const double cut = test::cut_capacity(graph, side);
      CHECK(cut == near(max_flow(graph, side)));
      if (side.size() == hcas.size() / 2) least = std::min(least, cut);
    }
    CHECK(check.bisection->value == near(least));
    std::size_t hops = 0;
    Picoseconds latency;
    for (const DeviceId a : hcas)
      for (const DeviceId b : hcas) {
        const std::vector<LinkId> wires = graph.path(a, b, PathClass::fabric).value();
        Picoseconds sum;
        for (const LinkId wire : wires) sum += graph.ends(wire).latency;
        hops = std::max(hops, wires.size());
        latency = std::max(latency, sum);
      }
    CHECK(check.diameter_hops == static_cast<int>(hops));
    CHECK(*check.diameter_latency == latency);
  }
  CHECK(blocked >= 10);
}

TEST_CASE("fabrics that are not connected block; rings of switches are decided by cuts", "[topologies][check]") {
  DeviceGraph graph;
  const DeviceId a = graph.add({"a", DeviceKind::network_switch, -1, 0});
  const DeviceId b = graph.add({"b", DeviceKind::network_switch, -1, 1});
  const DeviceId c = graph.add({"c", DeviceKind::network_switch, -1, 2});
  const Wire wire{LinkKind::hca, BytesPerSecond{1e9}, {}};
  for (int h = 0; h < 3; ++h)
    graph.connect(graph.add({"node" + std::to_string(h) + "/hca0", DeviceKind::hca, h, 0}), h == 0 ? a : b, wire);
  FabricCheck check = check_fabric(graph);
  CHECK(check.nonblocking == Nonblocking::no);
  CHECK(check.reason.find("cannot reach all other HCAs") != std::string::npos);
  CHECK_FALSE(check.counterexample);
  graph.connect(a, b, wire);
  CHECK(check_fabric(graph).nonblocking == Nonblocking::yes);
  graph.connect(b, c, wire);
  graph.connect(c, a, wire);
  check = check_fabric(graph);
  CHECK(check.nonblocking == Nonblocking::yes);
  CHECK(check.reason.find("spread over all shortest paths") != std::string::npos);
  REQUIRE(check.bisection);
  CHECK(check.bisection->value == near(1e9));  // the smaller half is one HCA
  CHECK(check.bisection_exact);
  CHECK_FALSE(check.diameter_hops);  // depends on the routing
}

TEST_CASE("two parallel links together carry what one cannot, and an HCA may have two links", "[topologies][check]") {
  const Wire wire{LinkKind::hca, BytesPerSecond{1e9}, {}};
  for (const int links : {1, 2}) {
    DeviceGraph graph;
    const DeviceId a = graph.add({"a", DeviceKind::network_switch, -1, 0});
    const DeviceId b = graph.add({"b", DeviceKind::network_switch, -1, 1});
    for (int h = 0; h < 4; ++h)
      graph.connect(graph.add({"node" + std::to_string(h) + "/hca0", DeviceKind::hca, h, 0}), h < 2 ? a : b, wire);
    for (int l = 0; l < links; ++l) graph.connect(a, b, {LinkKind::uplink, BytesPerSecond{1e9}, {}});
    const FabricCheck check = check_fabric(graph);
    CHECK(check.nonblocking == (links == 2 ? Nonblocking::yes : Nonblocking::no));
    CHECK(check.bisection->value == near(1e9 * links));
    CHECK(check.bisection_exact);
  }
  DeviceGraph graph;
  const DeviceId a = graph.add({"a", DeviceKind::network_switch, -1, 0});
  const DeviceId b = graph.add({"b", DeviceKind::network_switch, -1, 1});
  for (int h = 0; h < 2; ++h) {
    const DeviceId hca = graph.add({"node" + std::to_string(h) + "/hca0", DeviceKind::hca, h, 0});
    graph.connect(hca, a, wire);
    graph.connect(hca, b, wire);
  }
  const FabricCheck check = check_fabric(graph);
  CHECK(check.nonblocking == Nonblocking::yes);
  CHECK(check.bisection->value == near(2e9));
}

TEST_CASE("the slowdown and the bisection of 1,024 hosts on an oversubscribed leaf-spine are found",
          "[topologies][check]") {
  const ClusterSpec spec = checked_hosts(1024, {{32, 2}});
  DeviceGraph graph = build_cluster(spec);
  const FabricCheck check = check_fabric(graph, spec.fabric->levels());
  REQUIRE(check.counterexample);
  CHECK(simulated_slowdown(graph, check.counterexample->pairs) == near(2));
  CHECK(check.bisection->value == near(256e10));
}

TEST_CASE("if HCAs differ in rate, the hose model refutes the fabric, and there is no pattern of pairs",
          "[topologies][check]") {
  DeviceGraph graph;
  const DeviceId a = graph.add({"a", DeviceKind::network_switch, -1, 0});
  const DeviceId b = graph.add({"b", DeviceKind::network_switch, -1, 1});
  for (int h = 0; h < 4; ++h)
    graph.connect(graph.add({"node" + std::to_string(h) + "/hca0", DeviceKind::hca, h, 0}), h < 2 ? a : b,
                  {LinkKind::hca, BytesPerSecond{h == 0 ? 2e9 : 1e9}, {}});
  graph.connect(a, b, {LinkKind::uplink, BytesPerSecond{1.5e9}, {}});
  const FabricCheck check = check_fabric(graph);
  CHECK(check.nonblocking == Nonblocking::no);
  CHECK_FALSE(check.counterexample);
  CHECK(check.reason.find("the HCAs differ in rate") != std::string::npos);
}

TEST_CASE("beyond the size of the exact search, the bisection bandwidth is an upper bound, and is not called exact",
          "[topologies][check]") {
  DeviceGraph graph;
  const DeviceId top = graph.add({"top", DeviceKind::network_switch, -1, 0});
  const int half = static_cast<int>(kMostExactBisection) / 2 + 1;
  for (int side = 0; side < 2; ++side) {
    const DeviceId leaf = graph.add({"leaf" + std::to_string(side), DeviceKind::network_switch, -1, side});
    graph.connect(leaf, top, {LinkKind::uplink, BytesPerSecond{1e12}, {}});
    for (int h = 0; h < half; ++h)
      graph.connect(graph.add({"hca", DeviceKind::hca, side * half + h, 0}), leaf,
                    {LinkKind::hca, BytesPerSecond{1e9}, {}});
  }
  const FabricCheck check = check_fabric(graph);
  CHECK_FALSE(check.bisection_exact);
  CHECK(check.bisection->value == near(1e12));
}

}  // namespace topologies_test_fabric_check
