#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

#include "models/hardware/adapter_rate.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "topologies/cluster.hpp"
#include "topologies/drawings/topology_text.hpp"
#include "topologies/nodes/pcie_tree.hpp"

namespace topologies_test_pcie_lanes {

using namespace trainyard;

namespace {

using Widths = std::vector<int>;

/// A node with PCIe 4.0 and the given keys.
NodeType lane_node(int gpus, const std::string& pcie, const std::string& rest = "") {
  const Catalog catalog;
  const std::string text = "gpu: {count: " + std::to_string(gpus) +
                           ", type: {peak: {fp32: 1 TFLOP/s}, memory_bandwidth: 1 TB/s, memory_capacity: 1 GB}}\n"
                           "interconnect: pcie\n" +
                           rest + "pcie: {latency: 0 us, generation: 4" + pcie + "}\n";
  return read_node(catalog.resolve("node", parse_document(text, "x.yaml")), catalog);
}

const std::string kTwoSockets = "sockets: 2\nsocket_link: {rate: 40 GB/s, latency: 100 ns}\n";

Widths widths(const NodeType& node) {
  Widths all;
  for (const PcieSlot& slot : plan_lanes(node).slots) all.push_back(slot.lanes);
  return all;
}

double rate_up(const DeviceGraph& graph, const std::string& name) {
  return graph.links()[static_cast<std::size_t>(graph.links_from(find_device(graph, name)).front())].capacity.value;
}

}  // namespace

TEST_CASE("bifurcation gives the first devices the most lanes, in powers of two", "[lanes]") {
  CHECK(bifurcate(16, 0, 16).empty());
  CHECK(bifurcate(16, 1, 16) == Widths{16});
  CHECK(bifurcate(16, 2, 16) == Widths{8, 8});
  CHECK(bifurcate(16, 3, 16) == Widths{8, 4, 4});
  CHECK(bifurcate(16, 4, 16) == Widths{4, 4, 4, 4});
  CHECK(bifurcate(24, 2, 16) == Widths{16, 8});
  CHECK(bifurcate(48, 4, 16) == Widths{16, 16, 8, 8});
  CHECK(bifurcate(3, 3, 16) == Widths{1, 1, 1});
  CHECK(bifurcate(64, 4, 8) == Widths{8, 8, 8, 8});
  CHECK_THROWS_WITH(bifurcate(3, 4, 16), "4 devices share 3 PCIe lanes: each needs at least one");
}

TEST_CASE("bifurcation never uses more lanes than there are, and leaves none that would double a slot", "[lanes]") {
  for (int lanes = 1; lanes <= 96; ++lanes)
    for (int devices = 1; devices <= lanes; ++devices) {
      CAPTURE(lanes, devices);
      const Widths w = bifurcate(lanes, devices, 16);
      const int used = std::accumulate(w.begin(), w.end(), 0);
      CHECK(static_cast<int>(w.size()) == devices);
      CHECK(used <= lanes);
      CHECK(std::is_sorted(w.rbegin(), w.rend()));
      CHECK(w.front() <= 2 * w.back());
      for (const int width : w) CHECK((width & (width - 1)) == 0);
      const int narrowest = w.back();
      if (narrowest < 16) CHECK(lanes - used < narrowest);
    }
}

TEST_CASE("generation and lanes set the rate", "[lanes]") {
  CHECK(pcie_rate(3, 16).value == Approx(15.754e9).epsilon(1e-4));
  CHECK(pcie_rate(4, 16).value == Approx(31.508e9).epsilon(1e-4));
  CHECK(pcie_rate(5, 8).value == Approx(31.508e9).epsilon(1e-4));
  CHECK(pcie_rate(6, 16).value == Approx(121e9).epsilon(1e-4));
  const DeviceGraph graph = build_cluster([] {
    ClusterSpec spec;
    spec.node = lane_node(3, ", lanes_per_socket: 16");
    return spec;
  }());
  CHECK(rate_up(graph, "node0/gpu0") == Approx(pcie_rate(4, 8).value));
  CHECK(rate_up(graph, "node0/gpu2") == Approx(pcie_rate(4, 4).value));
}

TEST_CASE("a GPU of an older generation has its own rate; a rate given in place holds for all", "[lanes]") {
  const Catalog catalog;
  const auto read = [&](const std::string& pcie) {
    return read_node(catalog.resolve("node", parse_document("gpu: {count: 1, type: v100-sxm2-16gb}\n"
                                                            "interconnect: pcie\npcie: {latency: 0 us, " +
                                                                pcie + "}\n",
                                                            "x.yaml")),
                     catalog);
  };
  const NodeType newer = read("generation: 4");
  CHECK(lane_rate(newer, DeviceKind::gpu, 16) == BytesPerSecond{15.75e9});
  CHECK(lane_rate(newer, DeviceKind::gpu, 8) == BytesPerSecond{15.75e9 / 2});
  CHECK(lane_rate(newer, DeviceKind::hca, 16) == pcie_rate(4, 16));
  const NodeType given_rate = read("generation: 4, rate: 20 GB/s");
  CHECK(lane_rate(given_rate, DeviceKind::gpu, 16) == BytesPerSecond{20e9});
}

TEST_CASE("devices are dealt out to the sockets evenly", "[lanes]") {
  const auto sockets = [](int gpus, int hcas) {
    const NodeType node =
        lane_node(gpus, ", lanes_per_socket: 48",
                  kTwoSockets + "hca: {count: " + std::to_string(hcas) + ", rate: 1 GB/s, latency: 0 us}\n");
    Widths all;
    for (const PcieSlot& slot : plan_lanes(node).slots) all.push_back(slot.socket);
    return all;
  };
  CHECK(sockets(4, 2) == Widths{0, 0, 1, 1, 0, 1});
  CHECK(sockets(5, 1) == Widths{0, 0, 0, 1, 1, 1});
  CHECK(sockets(4, 4) == Widths{0, 0, 1, 1, 0, 0, 1, 1});
  CHECK(widths(lane_node(5, ", lanes_per_socket: 48, device_lanes: 16",
                         kTwoSockets + "hca: {count: 1, rate: 1 GB/s, latency: 0 us}\n")) == Widths(6, 16));
}

TEST_CASE("device_lanes: 0 is its default: devices share the lanes of their socket", "[lanes]") {
  CHECK(widths(lane_node(4, ", lanes_per_socket: 32, device_lanes: 0")) ==
        widths(lane_node(4, ", lanes_per_socket: 32")));
  CHECK(widths(lane_node(4, ", lanes_per_socket: 32, device_lanes: 4")) == Widths{4, 4, 4, 4});
}

TEST_CASE("lane budgets that are exceeded are refused in one line", "[lanes]") {
  const auto refused = [](const NodeType& node, const std::string& error) {
    CHECK_THROWS_WITH(plan_lanes(node), "node custom-node" + error);
  };
  refused(lane_node(4, ", lanes_per_socket: 24, device_lanes: 16"),
          ": 4 devices at x16 need 64 PCIe lanes, but there are 24: 1 device fits at x16");
  // There are enough lanes in all, but nine devices do not fit into twice four slots.
  refused(lane_node(9, ", lanes_per_socket: 80, device_lanes: 16",
                    kTwoSockets + "nvme: {count: 2, read: 1 GB/s, "
                                  "latency: 0 us, lanes: 4}\n"),
          ", socket 0: 5 devices at x16 and 1 NVMe drive need 84 PCIe lanes, but there are 80: 4 devices fit at x16 "
          "besides the others");
  refused(lane_node(20, ", lanes_per_socket: 16"),
          ", socket 0: 20 devices at x1 need 20 PCIe lanes, but there are 16: 16 devices fit at x1");
  refused(lane_node(4, ", lanes_per_socket: 16, switches: [{gpus: [0, 1]}, {gpus: [2, 3]}]"),
          ", socket 0: 2 switch uplinks need 32 PCIe lanes, but there are 16");
  refused(
      lane_node(3, ", lanes_per_socket: 32, device_lanes: 16, switches: [{gpus: [0]}]"),
      ": 2 devices at x16 and 1 switch uplink need 48 PCIe lanes, but there are 32: 1 device fits at x16 besides the "
      "uplinks");
  const PciePlan plan = plan_lanes(lane_node(3, ", lanes_per_socket: 32, switches: [{gpus: [0, 2], uplink_lanes: 8}]"));
  CHECK(plan.lanes_left == Widths{8});
  CHECK(plan.slots[1].pcie_switch == -1);
  CHECK(plan.slots[1].lanes == 16);
  CHECK(plan.slots[2].pcie_switch == 0);
}

TEST_CASE("a node's PCIe keys are checked, and errors point to their place", "[lanes]") {
  const auto refused = [](const std::string& pcie, const std::string& error, const std::string& rest = "") {
    CHECK_THROWS_WITH(lane_node(2, pcie, rest), Catch::Contains(error));
  };
  refused(", switches: [{gpus: [2]}]", "x.yaml:3:57: node custom-node: pcie.switches.0.gpus: 2, expected 0 to 1");
  refused(", switches: [{gpus: [0]}, {gpus: [0]}]", "pcie.switches.1.gpus: 0 is below two switches");
  refused(", switches: [{socket: 1}]", "pcie.switches.0.socket: 1, expected 0 to 0");
  refused(", switches: [{hcas: [0]}]", "pcie.switches.0.hcas: 0, but the node has none");
  refused(", switches: [{gpu: [0]}]",
          "unknown key \"gpu\" in node custom-node: pcie.switches.0; did you mean \"gpus\"?");
  refused(", switches: {gpus: [0]}", "pcie.switches: expected a list");
  refused(", switches: [{uplink_lanes: 12}]", "12 lanes; PCIe links have 1, 2, 4, 8 or 16");
  refused(", device_lanes: 8", "pcie.device_lanes: has no effect without lanes_per_socket or switches");
  refused(", lanes_per_socket: 0", "0 is too small; the least is 1");
  refused("", "2 sockets: missing key \"socket_link\"", "sockets: 2\n");
  refused("", "sockets: 9 is too many; the most is 8", "sockets: 9\n");
  refused("", "socket_link.rate: \"0 GB/s\" must be greater than 0",
          "sockets: 2\nsocket_link: {rate: 0 GB/s, latency: 0 us}\n");
  const Catalog catalog;
  const Node generation =
      parse_document("gpu: {count: 1, type: t4}\ninterconnect: pcie\npcie: {latency: 0 us, generation: 7}\n", "x.yaml");
  CHECK_THROWS_WITH(read_node(generation, catalog),
                    "x.yaml:3:35: node custom-node: pcie.generation: 7 is not known; known: 3, 4, 5, 6");
}

TEST_CASE("an adapter faster than its slot is capped at the slot's rate, and the description says so",
          "[lanes][adapters]") {
  const auto cluster_of = [](const std::string& node) {
    return read_cluster(parse_document("{nodes: 2, fabric: nonblocking, node: " + node + "}", "slots.yaml"), Catalog());
  };
  const ClusterSpec stock = cluster_of("dgx-h100");
  CHECK(adapter_rate(stock.node) == stock.node.hca_rate);
  CHECK_THAT(describe(stock), !Catch::Contains("capped"));
  const ClusterSpec fast = cluster_of("{base: dgx-h100, hca: {rate: 800 Gbit/s}}");
  CHECK(adapter_rate(fast.node) == fast.node.pcie_rate);
  CHECK(fastest_port(fast) == fast.node.pcie_rate);
  CHECK_THAT(describe(fast), Catch::Contains("8 × 800 Gbit/s HCA capped by its slot at 504 Gbit/s"));
  // Eight lanes have half of it.
  const std::string half =
      "{base: pcie-2, pcie: {device_lanes: 8, lanes_per_socket: 24}, "
      "hca: {count: 1, rate: 100 Gbit/s, latency: 1 us}}";
  const ClusterSpec narrow = cluster_of(half);
  CHECK(adapter_rate(narrow.node) == std::min(narrow.node.hca_rate, narrow.node.pcie_rate * 0.5));
  const Catalog catalog;
  for (const std::string& name : catalog.names("node")) {
    CAPTURE(name);
    const NodeType node = read_node(catalog.resolve("node", Node::scalar_node(name)), catalog);
    if (node.hcas > 0) CHECK(adapter_rate(node) == node.hca_rate);
  }
}

}  // namespace topologies_test_pcie_lanes
