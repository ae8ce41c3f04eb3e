#include "sim/error.hpp"
#include "tests/places.hpp"
#include "tests/support.hpp"
#include "topologies/drawings/topology_text.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_cluster {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ClusterSpec dgx(int nodes) {
  const Catalog catalog;
  ClusterSpec spec;
  spec.place = nowhere();
  spec.nodes = nodes;
  spec.node = read_node(catalog.resolve("node", Node::scalar_node("dgx-a100", nowhere())), catalog);
  spec.fabric = make_fabric("nonblocking");
  spec.switch_latency = {130000};
  return spec;
}

std::vector<std::string> hops(const ClusterMachine& m, Actor from, Actor to, PathClass path = PathClass::automatic) {
  std::vector<std::string> names;
  for (const LinkUse& use : m.route(from, to, path).links)
    names.push_back(m.links()[static_cast<std::size_t>(use.link)].name);
  return names;
}

}  // namespace

TEST_CASE("messages inside a DGX take NVLink, and messages between DGXs take the HCA of each GPU", "[topologies]") {
  const ClusterMachine m(dgx(2), SoftwareStack{});
  CHECK(hops(m, 0, 3) == std::vector<std::string>{"node0/gpu0 -> node0/nvswitch", "node0/nvswitch -> node0/gpu3"});
  CHECK(hops(m, 7, 8) == std::vector<std::string>{"node0/gpu7 -> node0/pcie7", "node0/pcie7 -> node0/hca7",
                                                  "node0/hca7 -> fabric", "fabric -> node1/hca0",
                                                  "node1/hca0 -> node1/pcie0", "node1/pcie0 -> node1/gpu0"});
  CHECK(hops(m, 0, 3, PathClass::pcie) ==
        std::vector<std::string>{"node0/gpu0 -> node0/pcie0", "node0/pcie0 -> node0/cpu0", "node0/cpu0 -> node0/pcie3",
                                 "node0/pcie3 -> node0/gpu3"});
  CHECK(hops(m, 0, 8, PathClass::network).size() == 6);
  CHECK_FALSE(m.route(0, 8, PathClass::nvlink).reachable);
  CHECK(m.route(0, 0, PathClass::automatic).links.empty());
}

TEST_CASE("latencies add up in whole picoseconds", "[topologies]") {
  const ClusterSpec spec = dgx(2);
  SoftwareStack stack;
  const ClusterMachine bare(spec, stack);
  CHECK(bare.route(0, 1, PathClass::automatic).latency.count == spec.node.nvlink_latency.count / 2 * 2);
  const std::int64_t between = 4 * spec.node.pcie_latency.count + 2 * spec.node.hca_latency.count + 130000;
  CHECK(bare.route(0, 8, PathClass::automatic).latency.count == between);
  stack.network_step = Seconds{9.7e-6};
  const ClusterMachine with_software(spec, stack);
  CHECK(with_software.route(0, 8, PathClass::automatic).latency.count == between + 9700000);
  CHECK(with_software.route(0, 1, PathClass::automatic).latency == bare.route(0, 1, PathClass::automatic).latency);
}

TEST_CASE("messages avoid a link that is down, and use it again once it is up", "[topologies]") {
  ClusterMachine m(dgx(1), SoftwareStack{});
  LinkId up = 0;
  while (m.links()[static_cast<std::size_t>(up)].name != "node0/gpu0 -> node0/nvswitch") ++up;
  m.link_state(up, false);
  CHECK(hops(m, 0, 3).front() == "node0/gpu0 -> node0/pcie0");
  CHECK(hops(m, 3, 0).front() == "node0/gpu3 -> node0/nvswitch");
  m.link_state(up, true);
  CHECK(hops(m, 0, 3).front() == "node0/gpu0 -> node0/nvswitch");
}

TEST_CASE("impossible wirings are refused", "[topologies]") {
  ClusterSpec spec = dgx(2);
  spec.node.hcas = 0;
  CHECK_THROWS_AS(build_cluster(spec), UserError);
  spec = dgx(2);
  spec.fabric = nullptr;
  CHECK_THROWS_WITH(build_cluster(spec), Catch::Contains("2 nodes, but no fabric joins them"));
  spec = dgx(2);
  spec.node.hca_rate = BytesPerSecond{0};
  CHECK_THROWS_WITH(build_cluster(spec), Catch::Contains("expected a finite rate above 0"));
  spec = dgx(1);
  spec.node.interconnect = "nvswich";
  CHECK_THROWS_WITH(build_cluster(spec), Catch::Contains("did you mean \"nvswitch\"?"));
}

TEST_CASE("fabrics state the slowest rate among their own links", "[topologies]") {
  CHECK(make_fabric("nonblocking")->slowest_stated_link().value == 0);
  CHECK(make_fabric("ring", "{link_rate: 3 GB/s}")->slowest_stated_link().value == 3e9);
  CHECK(make_fabric("dragonfly", "{switches_a_group: 4}")->slowest_stated_link().value == 0);
  CHECK(make_fabric("dragonfly", "{switches_a_group: 4, link_rate: 3 GB/s, global_rate: 2 GB/s}")
            ->slowest_stated_link()
            .value == 2e9);
  CHECK(make_fabric("dragonfly", "{switches_a_group: 4, global_rate: 2 GB/s}")->slowest_stated_link().value == 2e9);
}

TEST_CASE("if an NVLink fails in mid-flow, the rest of the message goes over PCIe", "[topologies]") {
  const auto run = [](double when) {
    ClusterMachine m(dgx(1), SoftwareStack{});
    Programs all(8);
    all[0] = std::make_unique<ListProgram>(std::vector<Op>{send(300e6)}, std::vector<Actor>{3});
    all[3] = std::make_unique<ListProgram>(std::vector<Op>{recv()}, std::vector<Actor>{0});
    RunSetup setup;
    const LinkId first = m.route(0, 3, PathClass::automatic).links.front().link;
    if (when > 0) setup.link_changes.push_back({Seconds{when}, first, BytesPerSecond{0}});
    return run_programs(m, std::move(all), std::move(setup)).end.value;
  };
  const double hop = 2 * 482500e-12, detour = 4 * 0.25e-6;
  CHECK(run(0) == near(hop + 1e-3));
  // 0.4 ms on NVLink carry 120 MB; 180 MB are left for the PCIe path through the CPU.
  CHECK(run(hop + 0.4e-3) == near(hop + 0.4e-3 + detour + 180e6 / 31.5e9));
}

}  // namespace topologies_test_cluster
