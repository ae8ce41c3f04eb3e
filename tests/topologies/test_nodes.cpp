#include <algorithm>

#include "tests/places.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"
#include "topologies/analysis/rings.hpp"
#include "topologies/drawings/topology_text.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/nodes/pcie_tree.hpp"

namespace topologies_test_nodes {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ClusterSpec cluster_with(const std::string& node, int nodes = 1) {
  const Catalog catalog;
  ClusterSpec spec;
  spec.nodes = nodes;
  spec.node = read_node(catalog.resolve("node", parse_document(node, "x.yaml")), catalog);
  spec.fabric = make_fabric("nonblocking");
  spec.place = nowhere();
  return spec;
}

/// Returns the shortest path over wires of a class, whatever drivers would choose.
DevicePath device_path(DeviceGraph& graph, DeviceId from, DeviceId to, PathClass path_class) {
  Path path;
  PathLeg& leg = path.legs.emplace_back();
  leg.wires = graph.path(from, to, path_class).value();
  for (const LinkId wire : leg.wires) {
    leg.links.push_back({wire, 1});
    leg.latency += graph.ends(wire).latency;
  }
  path.locality = locality_of(graph, leg.wires);
  return path_of(graph, path);
}

std::vector<std::string> path_names(DeviceGraph& graph, const std::string& a, const std::string& b) {
  const DevicePath path = device_path(graph, find_device(graph, a), find_device(graph, b), PathClass::automatic);
  std::vector<std::string> names{path.hops.front().from};
  for (const PathHop& hop : path.hops) names.push_back(hop.to);
  return names;
}

std::string locality_between(DeviceGraph& graph, int a, int b, const NodeType& node) {
  const auto gpus = graph.devices_of_kind(DeviceKind::gpu);
  return locality(graph, gpus[static_cast<std::size_t>(a)], gpus[static_cast<std::size_t>(b)], node.nvlink_rate);
}

}  // namespace

TEST_CASE("every node of the catalog is wired at physical rates, with the same path in both directions", "[nodes]") {
  for (const std::string& name : Catalog().names("node")) {
    INFO(name);
    const ClusterSpec spec = cluster_with(name);
    DeviceGraph graph = build_cluster(spec);
    CHECK(graph.devices_of_kind(DeviceKind::gpu).size() == static_cast<std::size_t>(spec.node.gpus));
    CHECK(graph.devices_of_kind(DeviceKind::hca).size() == static_cast<std::size_t>(spec.node.hcas));
    CHECK(graph.devices_of_kind(DeviceKind::cpu).size() == static_cast<std::size_t>(spec.node.sockets));
    for (const Link& link : graph.links()) {
      CHECK(link.capacity > BytesPerSecond{1e9});
      CHECK(link.capacity < BytesPerSecond{2e12});
    }
    // Both directions have equal rates, and every pair of GPUs and HCAs has the same path in both directions.
    std::vector<DeviceId> ends = graph.devices_of_kind(DeviceKind::gpu);
    for (const DeviceId hca : graph.devices_of_kind(DeviceKind::hca)) ends.push_back(hca);
    for (const DeviceId a : ends)
      for (const DeviceId b : ends) {
        if (a == b) continue;
        const DevicePath path_there = device_path(graph, a, b, PathClass::automatic);
        const DevicePath back = device_path(graph, b, a, PathClass::automatic);
        CHECK(path_there.rate == back.rate);
        CHECK(path_there.latency == back.latency);
        REQUIRE(path_there.hops.size() == back.hops.size());
        for (std::size_t i = 0; i < path_there.hops.size(); ++i)
          CHECK(path_there.hops[i].from == back.hops[back.hops.size() - 1 - i].to);
        CHECK(device_path(graph, a, b, PathClass::pcie).rate <= std::max(spec.node.pcie_rate, spec.node.gpu_pcie_rate));
      }
  }
}

TEST_CASE("the cube mesh of a DGX-1: six NVLinks for each GPU, PCIe between GPUs that are not neighbours", "[nodes]") {
  for (const char* name : {"dgx-1v", "p3.16xlarge"}) {
    INFO(name);
    const ClusterSpec spec = cluster_with(name);
    DeviceGraph graph = build_cluster(spec);
    std::vector<int> links(8, 0);
    int total = 0;
    for (const NvlinkBundle& bundle : spec.node.nvlink_mesh) {
      links[static_cast<std::size_t>(bundle.a)] += bundle.links;
      links[static_cast<std::size_t>(bundle.b)] += bundle.links;
      total += bundle.links;
    }
    CHECK(links == std::vector<int>(8, 6));
    CHECK(total == 24);
    CHECK(spec.node.nvlink_rate * 6 == spec.node.gpu.nvlink);
    for (const auto& [a, b] : {std::pair{0, 3}, {0, 4}, {1, 2}, {1, 5}, {2, 3}, {4, 7}, {5, 6}, {6, 7}})
      CHECK(locality_between(graph, a, b, spec.node) == "NV2");
    for (const auto& [a, b] : {std::pair{0, 1}, {0, 2}, {1, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {5, 7}})
      CHECK(locality_between(graph, b, a, spec.node) == "NV1");
    CHECK(locality_between(graph, 0, 7, spec.node) == "SYS");
    CHECK(path_names(graph, "gpu0", "gpu3") == std::vector<std::string>{"node0/gpu0", "node0/gpu3"});
    CHECK(path_names(graph, "gpu0", "gpu5") == std::vector<std::string>{"node0/gpu0", "node0/pcie0", "node0/cpu0",
                                                                        "node0/cpu1", "node0/pcie2", "node0/gpu5"});
    const DevicePath neighbours = device_path(graph, find_device(graph, "0"), find_device(graph, "4"), {});
    CHECK(neighbours.rate == BytesPerSecond{50e9});
    CHECK_FALSE(graph.path(find_device(graph, "0"), find_device(graph, "5"), PathClass::nvlink));
  }
}

TEST_CASE("a DGX-1 with P100: four NVLinks a GPU, the quads and the four edges between them", "[nodes]") {
  const ClusterSpec spec = cluster_with("dgx-1p");
  DeviceGraph graph = build_cluster(spec);
  std::vector<int> links(8, 0);
  LinkGraph mesh{8, {}};
  for (const NvlinkBundle& bundle : spec.node.nvlink_mesh) {
    CHECK(bundle.links == 1);
    ++links[static_cast<std::size_t>(bundle.a)];
    ++links[static_cast<std::size_t>(bundle.b)];
    mesh.bundles.push_back({bundle.a, bundle.b, bundle.links});
  }
  CHECK(links == std::vector<int>(8, 4));
  CHECK(spec.node.nvlink_rate * 4 == spec.node.gpu.nvlink);
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < a; ++b)
      CHECK(locality_between(graph, a, b, spec.node) == (a / 4 == b / 4 || a == b + 4 ? "NV1" : "SYS"));
  const RingDecomposition found = decompose_rings(mesh);
  CHECK(found.complete);
  CHECK(found.rings.size() == 2);  // four links a GPU are two rings at most
  CHECK(found.weight == 2);
  CHECK(found.unused_links == 0);
}

TEST_CASE("a GPU of a DGX-2 is at an NVSwitch, and shares a PCIe switch and an HCA with its neighbour", "[nodes]") {
  DeviceGraph graph = build_cluster(cluster_with("dgx-2", 2));
  CHECK(path_names(graph, "node0/gpu0", "node0/gpu15") ==
        std::vector<std::string>{"node0/gpu0", "node0/nvswitch", "node0/gpu15"});
  for (int gpu = 0; gpu < 16; ++gpu) {
    const auto names = path_names(graph, "node0/gpu" + std::to_string(gpu), "node1/gpu" + std::to_string(gpu));
    CHECK(std::count(names.begin(), names.end(), "node0/hca" + std::to_string(gpu / 2)) == 1);
  }
}

TEST_CASE("a rack of 72 GPUs is one NVLink domain with one HCA for each GPU", "[nodes]") {
  const ClusterSpec spec = cluster_with("gb200-nvl72", 2);
  DeviceGraph graph = build_cluster(spec);
  CHECK(path_names(graph, "node0/gpu0", "node0/gpu71") ==
        std::vector<std::string>{"node0/gpu0", "node0/nvswitch", "node0/gpu71"});
  const auto names = path_names(graph, "node0/gpu71", "node1/gpu71");
  CHECK(std::count(names.begin(), names.end(), "node0/hca71") == 1);
  const DevicePath out = device_path(graph, find_device(graph, "node0/gpu71"), find_device(graph, "node1/gpu71"), {});
  CHECK(out.rate == BytesPerSecond{50e9});
}

TEST_CASE("a GPU beside a Grace reaches host memory at the rate of its NVLink-C2C, and its HCA at that of PCIe",
          "[nodes]") {
  const ClusterSpec spec = cluster_with("{base: gb200-nvl72, gpu: {count: 2}, hca: {count: 2}}");
  DeviceGraph graph = build_cluster(spec);
  const auto rate = [&](const char* from, const char* to) {
    return device_path(graph, find_device(graph, from), find_device(graph, to), PathClass::automatic).rate;
  };
  CHECK(rate("node0/gpu0", "node0/cpu0") == BytesPerSecond{225e9});
  CHECK(rate("node0/cpu0", "node0/gpu1") == BytesPerSecond{225e9});
  CHECK(rate("node0/gpu0", "node0/hca0") < BytesPerSecond{64e9});
}

TEST_CASE("three GPUs of a PCIe box share a socket's lanes, and the L40S server uses all lanes", "[nodes]") {
  const auto lanes = [](const std::string& node) {
    std::vector<int> widths;
    for (const PcieSlot& slot : plan_lanes(cluster_with(node).node).slots) widths.push_back(slot.lanes);
    return widths;
  };
  CHECK(lanes("pcie-3") == std::vector<int>{8, 4, 4});
  CHECK(lanes("pcie-5") == std::vector<int>(5, 16));
  CHECK(lanes("l40s-8x") == std::vector<int>(10, 16));
  CHECK(plan_lanes(cluster_with("l40s-8x").node).lanes_left == std::vector<int>{0, 0});
  CHECK(plan_lanes(cluster_with("pcie-7").node).lanes_left == std::vector<int>{32, 32});
  DeviceGraph k80 = build_cluster(cluster_with("k80-gce"));
  CHECK(path_names(k80, "gpu0", "gpu1") == std::vector<std::string>{"node0/gpu0", "node0/pcie0", "node0/gpu1"});
}

TEST_CASE("each pair of GPUs of a DGX-1 uses the HCA of its switch", "[nodes]") {
  DeviceGraph graph = build_cluster(cluster_with("dgx-1v", 2));
  for (int gpu = 0; gpu < 8; ++gpu) {
    const auto names = path_names(graph, "node0/gpu" + std::to_string(gpu), "node1/gpu" + std::to_string(gpu));
    CHECK(std::count(names.begin(), names.end(), "node0/hca" + std::to_string(gpu / 2)) == 1);
    CHECK(std::count(names.begin(), names.end(), "node1/hca" + std::to_string(gpu / 2)) == 1);
  }
}

TEST_CASE("transfers share the uplink of a PCIe switch, and the link between sockets", "[nodes]") {
  const auto time = [](const ClusterSpec& spec, const std::vector<std::pair<Actor, Actor>>& pairs) {
    ClusterMachine m(spec, SoftwareStack{});
    Programs programs(static_cast<std::size_t>(spec.node.gpus));
    for (const auto& [from, to] : pairs) {
      programs[static_cast<std::size_t>(from)] =
          std::make_unique<ListProgram>(std::vector<Op>{send(1e9)}, std::vector<Actor>{to});
      programs[static_cast<std::size_t>(to)] =
          std::make_unique<ListProgram>(std::vector<Op>{recv()}, std::vector<Actor>{from});
    }
    return run_programs(m, std::move(programs)).end.value;
  };
  ClusterSpec box = cluster_with("pcie-8");
  box.node.pcie_latency = box.node.socket_latency = {};
  box.node.pcie_rate = BytesPerSecond{16e9};
  box.node.gpu_pcie_rate = {};
  box.node.peer_to_peer = PeerToPeer::node;
  box.node.socket_rate = BytesPerSecond{10e9};
  CHECK(time(box, {{0, 1}, {2, 3}}) == near(1 / 16.0));  // below one switch each pair has its own links
  CHECK(time(box, {{0, 4}}) == near(1 / 10.0));          // the sockets' link is the slowest
  CHECK(time(box, {{0, 4}, {1, 5}}) == near(2 / 10.0));  // and shared
  CHECK(time(box, {{0, 4}, {5, 1}}) == near(1 / 10.0));  // but full duplex
  box.node.socket_rate = BytesPerSecond{100e9};
  CHECK(time(box, {{0, 4}, {1, 5}, {2, 6}}) == near(3 / 16.0));  // then the uplink of the switch
  box.node.pcie_rate = BytesPerSecond{32e9};
  CHECK(time(box, {{0, 4}, {1, 5}, {2, 6}}) == near(3 / 32.0));
  box.node.socket_rate = BytesPerSecond{15e9};
  CHECK(time(box, {{0, 4}}) == near(1 / 15.0));
}

TEST_CASE("without a lane plan, two sockets share the PCIe switches evenly", "[nodes]") {
  DeviceGraph graph =
      build_cluster(cluster_with("base: dgx-a100\nsockets: 2\nsocket_link: {rate: 50 GB/s, latency: 100 ns}\n"));
  CHECK(path_names(graph, "hca3", "hca4") ==
        std::vector<std::string>{"node0/hca3", "node0/pcie3", "node0/cpu0", "node0/cpu1", "node0/pcie4", "node0/hca4"});
  CHECK(locality_between(graph, 0, 7, NodeType{}) == "NV");
}

TEST_CASE("a node with NVLink refuses a GPU that takes none", "[nodes]") {
  const auto error = [](const std::string& node) { return user_error([&] { cluster_with(node); }); };
  const std::string none = "gpu t4 takes no NVLink (its entry gives no \"nvlink\", the rate of all of them), but ";
  CHECK_THAT(error("base: dgx-1v\ngpu: {type: t4}\n"),
             Catch::StartsWith("x.yaml:2:") && Catch::EndsWith(none + "interconnect nvlink-mesh needs some"));
  CHECK_THAT(error("base: dgx-a100\ngpu: {type: t4}\n"),
             Catch::StartsWith("x.yaml:2:") && Catch::EndsWith(none + "interconnect nvswitch needs some"));
  CHECK_THAT(error("base: t4-server\ngpu: {count: 2, type: t4}\ninterconnect: graph\nnvlink: {latency: 1 us}\nwires:\n"
                   "  - {from: gpu0, to: cpu0}\n  - {from: gpu1, to: cpu0}\n"
                   "  - {from: gpu0, to: gpu1, kind: NVLink, rate: 50 GB/s}\n"),
             Catch::EndsWith(none + "a wire from gpu0 to gpu1 needs some"));
  CHECK(error("base: dgx-1v\ngpu: {type: {base: t4, nvlink: 100 GB/s}}\n") == "");
}

TEST_CASE("the rate of a GPU's NVLinks is refused where the links of a mesh have their own", "[nodes]") {
  const auto error = [](const std::string& node) { return user_error([&] { cluster_with(node); }); };
  CHECK(
      error("base: dgx-1v\ngpu: {nvlink: 1 GB/s}\n") ==
      "x.yaml:2:15: gpu.nvlink has no effect in a mesh, each of whose links has 25.0 GB/s: expected nvlink.link_rate, "
      "the rate of one link");
  CHECK(error("base: dgx-1v\ngpu: {nvlink: 300 GB/s}\nnvlink: {link_rate: 50 GB/s}\n") == "");
  CHECK(error("base: dgx-a100\ngpu: {nvlink: 200 GB/s}\n") == "");
}

TEST_CASE("an impossible mesh is refused, and the error points to its place", "[nodes]") {
  const auto refused = [](const std::string& nvlink, const std::string& error) {
    CHECK_THROWS_WITH(cluster_with("base: pcie-2\ninterconnect: nvlink-mesh\nnvlink: " + nvlink + "\n"),
                      Catch::Contains(error));
  };
  refused("{latency: 0 us, link_rate: 25 GB/s, mesh: [[0, 2, 1]]}",
          "x.yaml:3:56: node pcie-2: nvlink.mesh: 2, "
          "expected 0 to 1");
  refused("{latency: 0 us, link_rate: 25 GB/s, mesh: [[0, 1]]}", "expected [GPU, GPU, number of links]");
  refused("{latency: 0 us, link_rate: 25 GB/s, mesh: [[1, 1, 2]]}", "joins GPU 1 with itself");
  refused("{latency: 0 us, link_rate: 25 GB/s, mesh: [[0, 1, 2], [1, 0, 1]]}", "GPUs 1 and 0 are joined twice");
  refused("{latency: 0 us, link_rate: 25 GB/s, mesh: [[0, 1, 0]]}", "0 links are no edge");
  refused("{latency: 0 us, link_rate: 25 GB/s}", "missing key \"mesh\"");
  refused("{latency: 0 us, mesh: [[0, 1, 1]]}", "missing key \"link_rate\"");
  refused("{latency: 0 us, link_rate: -1 GB/s, mesh: [[0, 1, 1]]}", "must be greater than 0");
}

}  // namespace topologies_test_nodes
