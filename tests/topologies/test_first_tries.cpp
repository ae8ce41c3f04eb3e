// Obstacles that a first-time user of the program met.
#include "tests/seeds/transfers.hpp"
#include "tests/support.hpp"
#include "topologies/drawings/topology_text.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/nodes/pcie_tree.hpp"

namespace topologies_test_first_tries {

using namespace trainyard;
using namespace trainyard::test;

namespace {

DevicePath between(const ClusterSpec& spec, const std::string& a, const std::string& b) {
  DeviceGraph graph = build_cluster(spec);
  Routing routing(graph, spec);
  return path_of(graph, routing.path(find_device(graph, a), find_device(graph, b), PathClass::automatic));
}

ClusterSpec graph_box(const std::string& wires, const std::string& more = "") {
  return cluster_of(2, "interconnect: graph\npcie: {rate: 16 GB/s, latency: 0 us" + more +
                           "}\nnvme: {count: 1, read: 3 GB/s, write: 2 GB/s, latency: 80 us}\nwires: [" + wires +
                           "]\n");
}

const std::string kWires = "{from: gpu0, to: cpu0}, {from: gpu1, to: cpu0}, {from: nvme0, to: cpu0}";

}  // namespace

TEST_CASE("naming a node's CPU does not change its PCIe switches, unless the node specifies its lanes", "[nodes]") {
  const auto node = [](const std::string& text) {
    const Catalog catalog;
    return read_node(catalog.resolve("node", parse_document(text, "x.yaml")), catalog);
  };
  CHECK_FALSE(has_lane_plan(node("{base: dgx-a100, cpu: epyc-7742}")));
  CHECK(node("{base: dgx-a100, cpu: epyc-7742}").cpu.lanes == 128);
  CHECK(node("{base: dgx-1v, cpu: xeon-e5-2698-v4}").lanes_per_socket == 40);  // it lists its switches
}

TEST_CASE("a switch given by name limits the rate of its ports, and their number", "[topo]") {
  const std::string one = "{type: nonblocking, switch: ethernet-switch}";
  const ClusterSpec hosts = hosts_of(2, "rate: 400 Gbit/s", one);
  CHECK(between(hosts, "node0/hca0", "node1/hca0").rate == hosts.switch_rate);
  CHECK(hosts.switch_rate < BytesPerSecond{50e9});
  const ClusterSpec wide =
      hosts_of(300, "rate: 100 Gbit/s", "{type: folded-clos, switch: ethernet-switch, levels: [{down: 128}]}");
  CHECK_THROWS_WITH(build_cluster(wide), Catch::Contains("128 ports down at 1:1 and 128 up, but the switch has"));
}

TEST_CASE("each rail has its own leaves, even with few nodes", "[topo]") {
  const ClusterSpec four = cluster_of(2,
                                      "interconnect: pcie\npcie: {rate: 1 TB/s, latency: 0 us}\n"
                                      "hca: {count: 2, rate: 10 GB/s, latency: 0 us}\n",
                                      4, "{base: rail-optimized}");
  CHECK(between(four, "node0/hca1", "node3/hca1").hops.size() == 2);  // one leaf
  CHECK(between(four, "node0/hca0", "node3/hca1").hops.size() == 4);  // over a spine
}

TEST_CASE("a node given wire by wire keeps its drive's figures and its duplex", "[nodes]") {
  const ClusterSpec box = graph_box(kWires);
  CHECK(between(box, "nvme0", "cpu0").rate == BytesPerSecond{3e9});
  CHECK(between(box, "cpu0", "nvme0").rate == BytesPerSecond{2e9});
  CHECK(between(box, "nvme0", "cpu0").latency == Picoseconds{80'000'000});
  const std::vector<Transfer> both{{0, 1, Bytes{16e6}}, {1, 0, Bytes{16e6}}};
  CHECK(transfer_ms(graph_box(kWires), both) == near(1));
  CHECK(transfer_ms(graph_box(kWires, ", duplex: half"), both) == near(2));
}

TEST_CASE("impossible wirings of a node given wire by wire are refused", "[nodes]") {
  CHECK_THROWS_WITH(graph_box(kWires + ", {from: cpu0, to: gpu1}"), Catch::Contains("are joined twice"));
  CHECK_THROWS_WITH(graph_box("{from: gpu0, to: cpu0, lanes: 3}"), Catch::Contains("only for PCIe: 1, 2, 4, 8 or 16"));
  CHECK_THROWS_WITH(graph_box(kWires, ", lanes_per_socket: 4"), Catch::Contains("have no effect in a graph"));
}

}  // namespace topologies_test_first_tries
