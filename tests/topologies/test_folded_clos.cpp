#include "sim/observers/traffic.hpp"
#include "tests/support.hpp"
#include "tests/topologies/bare_hosts.hpp"
#include "topologies/drawings/topology_text.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_folded_clos {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ClusterSpec hosts(int count, const std::vector<FabricLevel>& levels, bool rails = false) {
  return bare_hosts(count, clos_of(levels, rails));
}

/// The time until every host has sent 1 GB to to[host], all at once.
double exchange_time(const ClusterSpec& spec, const std::vector<Actor>& to) {
  ClusterMachine machine(spec, SoftwareStack{});
  std::vector<Actor> from(to.size());
  for (std::size_t a = 0; a < to.size(); ++a) from[static_cast<std::size_t>(to[a])] = static_cast<Actor>(a);
  Programs all;
  for (std::size_t a = 0; a < to.size(); ++a)
    all.push_back(std::make_unique<ListProgram>(std::vector<Op>{send(1e9, 0, 0, 0), recv(1, 0, 1)},
                                                std::vector<Actor>{to[a], from[a]}, 2));
  Traffic traffic(machine.links());  // checks every link when the run ends
  return run_programs(machine, std::move(all), {{&traffic}}).end.value;
}

/// Reads a fabric that is based on one of the catalog.
ClusterSpec spec_of(const std::string& text) {
  ClusterSpec spec;
  spec.place = nowhere();
  const Catalog catalog;
  read_fabric(spec, catalog.resolve("fabric", parse_document(text, "x.yaml")), catalog);
  return spec;
}

std::vector<Actor> shift_targets(int n, int distance) {
  std::vector<Actor> to;
  for (Actor a = 0; a < n; ++a) to.push_back((a + distance) % n);
  return to;
}

}  // namespace

TEST_CASE("a full folded Clos carries any permutation at full rate", "[topologies][fabric]") {
  for (const int distance : {1, 3, 8, 11}) {
    CHECK(exchange_time(hosts(16, {{4, 1}}), shift_targets(16, distance)) == near(0.1));
    CHECK(exchange_time(hosts(16, {{2, 1}, {4, 1}}), shift_targets(16, distance)) == near(0.1));
  }
}

TEST_CASE("a 2:1 oversubscribed fabric halves the rate across leaves, but does not slow a ring in rank order",
          "[topologies][fabric]") {
  const ClusterSpec spec = hosts(16, {{4, 2}});
  CHECK(exchange_time(spec, shift_targets(16, 4)) == near(0.2));  // everything crosses
  CHECK(exchange_time(spec, shift_targets(16, 1)) == near(0.1));  // one of four crosses
  // Two of four cross: exactly what the uplinks carry.
  CHECK(exchange_time(spec, shift_targets(16, 2)) == near(0.1));
  CHECK(exchange_time(spec, shift_targets(16, 3)) == near(0.15));
}

TEST_CASE("each level has its own oversubscription", "[topologies][fabric]") {
  const ClusterSpec spec = hosts(16, {{2, 1}, {2, 4}});           // pods of four hosts, 1:4 above them
  CHECK(exchange_time(spec, shift_targets(16, 2)) == near(0.2));  // two of four leave the pod, over one host's rate
  CHECK(exchange_time(spec, shift_targets(16, 4)) == near(0.4));
}

TEST_CASE("latency grows with the switches passed", "[topologies][fabric]") {
  ClusterSpec spec = hosts(16, {{2, 1}, {4, 1}});
  spec.node.pcie_latency = {1000};
  spec.node.hca_latency = {500000};
  spec.switch_latency = {100000};
  const ClusterMachine m(spec, SoftwareStack{});
  const auto latency = [&m](Actor to) { return m.route(0, to, PathClass::automatic).latency.count; };
  CHECK(latency(1) == 4000 + 2 * 500000 + 100000);      // the leaf
  CHECK(latency(2) == 4000 + 2 * 500000 + 3 * 100000);  // leaf, pod, leaf
  CHECK(latency(8) == 4000 + 2 * 500000 + 5 * 100000);  // through the core
}

TEST_CASE("rails: GPUs of one index share a leaf, others cross the spines", "[topologies][fabric]") {
  ClusterSpec spec = hosts(4, {{4, 1}}, true);
  spec.node.gpus = spec.node.hcas = 2;
  const ClusterMachine m(spec, SoftwareStack{});
  const auto hops = [&m](Actor from, Actor to) { return m.route(from, to, PathClass::automatic).links.size(); };
  CHECK(hops(0, 2) == 6);  // gpu, pcie, hca, leaf, hca, pcie, gpu
  CHECK(hops(0, 3) == 8);  // leaf, spines, leaf
  spec.fabric = clos_of({{4, 1}});
  const ClusterMachine by_node(spec, SoftwareStack{});
  CHECK(by_node.route(0, 3, PathClass::automatic).links.size() == 6);
  CHECK(by_node.route(0, 6, PathClass::automatic).links.size() == 8);
}

TEST_CASE("rails that no switch joins: a message to another rail changes it inside of a node", "[topologies][fabric]") {
  ClusterSpec spec = hosts(4, {{2, 1}}, true);
  spec.node.gpus = spec.node.hcas = 2;
  spec.fabric = make_fabric("folded-clos", "{levels: [{down: 2}], rails: true, joined: false}");
  const ClusterMachine m(spec, SoftwareStack{});
  const auto names = [](const ClusterMachine& machine, Actor from, Actor to) {
    std::string all;
    const Route route = machine.route(from, to, PathClass::automatic);
    REQUIRE(route.reachable);
    for (const LinkUse& use : route.links)
      all += machine.links()[static_cast<std::size_t>(use.link)].name.text() + "; ";
    return all;
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(names(m, 0, 6), Contains("leaf0 -> rail0; rail0 -> leaf1; leaf1 -> node3/hca0"));
  // Without NVLink it arrives at the sender's rail, and crosses the receiver's PCIe.
  CHECK_THAT(names(m, 0, 3), Contains("leaf0 -> node1/hca0") && !Contains("hca1") && Contains("node1/gpu1"));
  // With NVLink it leaves by the GPU on the receiver's rail.
  ClusterSpec linked;
  linked.place = nowhere();
  linked.nodes = 2;
  const Catalog catalog;
  linked.node = read_node(catalog.resolve("node", Node::scalar_node("dgx-h100")), catalog);
  read_fabric(linked, catalog.resolve("fabric", Node::scalar_node("rail-only")), catalog);
  const ClusterMachine relayed(linked, SoftwareStack{});
  CHECK_THAT(names(relayed, 0, 11), Contains("node0/hca3 -> leaf3; leaf3 -> node1/hca3") && !Contains("hca0"));
  CHECK_THAT(relayed.route(0, 11, PathClass::automatic).name, Contains("by NVLink to the rail"));
  CHECK(relayed.route(0, 11, PathClass::automatic).legs.size() == 2);
  CHECK(relayed.route(0, 8, PathClass::automatic).legs.empty());
  for (const char* refused : {"{base: leaf-spine, joined: false}", "{base: rail-only, routing: ecmp}",
                              "{base: rail-only, levels: [{down: 4}, {down: 2}]}"})
    CHECK_THROWS_WITH(spec_of(refused), Contains("joined: false: expected rails: true beside it, one level"));
  linked.switch_ports = 2;  // a rail of two nodes fills the switch, and has no uplinks
  CHECK(build_cluster(linked).devices_of_kind(DeviceKind::network_switch).size() >= 8);
  linked.switch_ports = 1;
  CHECK_THROWS_WITH(build_cluster(linked), Contains("a rail of 2 nodes, but the switch has 1 port"));
  linked.switch_ports = 0;
  linked.taken_out.push_back({"leaf0", linked.place});
  CHECK_THROWS_WITH(build_cluster(linked), Contains("rails that are not joined"));
}

TEST_CASE("messages of a GPU use its own HCA, even if another path is shorter", "[topologies][fabric]") {
  ClusterSpec spec = hosts(4, {{4, 100}}, true);  // crossing the spines is slow, the CPU's PCIe fast
  spec.node.gpus = spec.node.hcas = 2;
  ClusterMachine m(spec, SoftwareStack{});
  const auto names = [&m] {
    std::vector<std::string> all;
    for (const LinkUse& use : m.route(1, 2, PathClass::automatic).links)
      all.push_back(m.links()[static_cast<std::size_t>(use.link)].name);
    return all;
  };
  CHECK_THAT(names(), Catch::VectorContains(std::string("leaf1 -> spines")));
  CHECK_THAT(names(), Catch::VectorContains(std::string("node0/pcie1 -> node0/hca1")));
  // Another HCA is used only if its own is cut off.
  LinkId up = 0;
  while (m.links()[static_cast<std::size_t>(up)].name != "node0/pcie1 -> node0/hca1") ++up;
  m.link_state(up, false);
  CHECK_THAT(names(), Catch::VectorContains(std::string("node0/pcie0 -> node0/hca0")));
}

TEST_CASE("a fabric's levels are checked, and errors point to their place", "[topologies][fabric]") {
  CHECK(spec_of("{base: leaf-spine, levels: [{down: 8, oversubscription: 3}]}").fabric->levels().front().down == 8);
  CHECK(spec_of("{base: fat-tree}").fabric->levels().size() == 2);
  CHECK_THAT(spec_of("{base: rail-optimized}").fabric->summary(), Catch::EndsWith("rails"));
  CHECK_THROWS_WITH(spec_of("{base: leaf-spine, levels: []}"),
                    Catch::Contains("x.yaml:1:") && Catch::Contains("one to four levels"));
  CHECK_THROWS_WITH(spec_of("{base: leaf-spine, levels: [{down: 0}]}"), Catch::Contains("x.yaml:1:"));
  CHECK_THROWS_WITH(spec_of("{base: leaf-spine, levels: [{up: 8, down: 1}]}"), Catch::Contains("unknown key \"up\""));
  CHECK_THROWS_WITH(spec_of("{base: nonblocking, rails: true}"), Catch::Contains("unknown key \"rails\""));
}

TEST_CASE("every fabric with levels accepts an oversubscription, which is that of its leaves", "[topologies][fabric]") {
  int with_levels = 0;
  for (const std::string& name : Catalog().names("fabric")) {
    INFO(name);
    const ClusterSpec plain = spec_of("{base: " + name + "}");
    const std::string short_form = "{base: " + name + ", oversubscription: 2.5}";
    if (plain.fabric->levels().empty()) {
      CHECK_THROWS_WITH(spec_of(short_form), Catch::Contains("x.yaml:1:") && Catch::Contains("no levels of switches") &&
                                                 Catch::Contains("{base: leaf-spine, oversubscription: 2.5}"));
      continue;
    }
    ++with_levels;
    const ClusterSpec shortened = spec_of(short_form);
    const auto before = plain.fabric->levels(), after = shortened.fabric->levels();
    REQUIRE(after.size() == before.size());
    for (std::size_t l = 0; l < after.size(); ++l) {
      CHECK(after[l].down == before[l].down);
      CHECK(after[l].oversubscription == (l == 0 ? 2.5 : before[l].oversubscription));
    }
    // The short form equals the long form.
    std::string levels;
    for (std::size_t l = 0; l < before.size(); ++l)
      levels += fmt::format("{}{{down: {}, oversubscription: {}}}", l > 0 ? ", " : "", before[l].down,
                            l == 0 ? 2.5 : before[l].oversubscription);
    CHECK(spec_of("{base: " + name + ", levels: [" + levels + "]}").fabric->summary() == shortened.fabric->summary());
  }
  CHECK(with_levels >= 4);
  CHECK(spec_of("{base: fat-tree, levels: [{down: 8}, {down: 4}], oversubscription: 4}").fabric->levels()[0].down == 8);
  CHECK_THROWS_WITH(spec_of("{base: fat-tree, levels: [{down: 8, oversubscription: 2}], oversubscription: 4}"),
                    Catch::Contains("x.yaml:1:") && Catch::Contains("expected only one of the two"));
  CHECK_THROWS_WITH(spec_of("{base: fat-tree, oversubscription: 0}"), Catch::Contains("x.yaml:1:"));
}

TEST_CASE("GPUs that are equally near to several HCAs use them in turn", "[topologies][fabric]") {
  ClusterSpec spec = hosts(2, {{8, 1}});
  spec.node.gpus = 4;
  spec.node.hcas = 2;
  // GPUs 2 and 3 have no HCA on their own PCIe switch: both HCAs are a CPU away.
  const ClusterMachine m(spec, SoftwareStack{});
  std::vector<std::string> out;
  for (Actor gpu = 0; gpu < 4; ++gpu)
    for (const LinkUse& use : m.route(gpu, 4, PathClass::automatic).links) {
      const Link& link = m.links()[static_cast<std::size_t>(use.link)];
      if (link.name.text().find(" -> leaf0") != std::string::npos) out.push_back(link.name);
    }
  CHECK(out == std::vector<std::string>{"node0/hca0 -> leaf0", "node0/hca1 -> leaf0", "node0/hca0 -> leaf0",
                                        "node0/hca1 -> leaf0"});
}

}  // namespace topologies_test_folded_clos
