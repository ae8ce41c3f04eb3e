// Paths of messages: peer to peer or through host memory, by RDMA or TCP, and their costs.
#include <algorithm>

#include "scenarios/src/reading/scenario.hpp"
#include "tests/seeds/transfers.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_routing {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// GPUs 0 and 1 behind one switch, 2 behind another of the same socket, 3 at the other socket. PCIe 16 GB/s, memory of
/// each socket 20 GB/s; messages of 10 MB are sent in chunks of 1 MB.
ClusterSpec two_sockets(const std::string& peer_to_peer, const std::string& more = "") {
  return cluster_of(4, R"(interconnect: pcie
sockets: 2
socket_link: {rate: 12 GB/s, latency: 300 ns}
pcie: {rate: 16 GB/s, latency: 100 ns, lanes_per_socket: 64, peer_to_peer: )" +
                           peer_to_peer + R"(,
       switches: [{socket: 0, gpus: [0, 1]}, {socket: 0, gpus: [2]}]}
cpu: {memory_bandwidth: 20 GB/s}
staging_chunk: 1 MB
)" + more);
}

/// Two nodes of two GPUs and two HCAs of 5 GB/s each, one socket; PCIe 16 GB/s.
ClusterSpec two_nodes(const std::string& hca, const std::string& cpu, const std::string& more = "") {
  return cluster_of(2,
                    "interconnect: pcie\npcie: {rate: 16 GB/s, latency: 0 us}\nstaging_chunk: 1 MB\n"
                    "hca: {count: 2, rate: 5 GB/s, latency: 1 us" +
                        hca + "}\ncpu: {" + cpu + "}\n" + more,
                    2);
}

std::string route_name(const ClusterMachine& m, Actor from, Actor to, PathClass path = PathClass::automatic) {
  const Route route = m.route(from, to, path);
  return route.reachable ? route.name : "none";
}

std::vector<std::string> links_of(const ClusterMachine& m, Actor from, Actor to) {
  std::vector<std::string> names;
  for (const LinkUse& use : m.route(from, to, PathClass::automatic).links)
    names.push_back(m.links()[static_cast<std::size_t>(use.link)].name);
  return names;
}

constexpr Bytes kLarge{10e6}, kSmall{0.5e6};

/// Milliseconds over legs with these seconds a byte: in chunks of 1 MB if the message is larger, at `rate`.
double staged_ms(Bytes size, double latency, const std::vector<double>& legs, double rate) {
  double sum = 0, slowest = 0;
  for (const double leg : legs) {
    sum += leg;
    slowest = std::max(slowest, leg);
  }
  const double seconds = size > Bytes{1e6} ? 1e6 * (sum - slowest) + size.value / rate : size.value * sum;
  return (latency + seconds) * 1e3;
}

}  // namespace

TEST_CASE("nodes of one wiring take the same adapters, and keep them if a link fails", "[routing]") {
  const ClusterSpec boxes = two_nodes("", "memory_bandwidth: 20 GB/s");
  ClusterMachine m(boxes, SoftwareStack{});
  const DeviceId on = m.device(2) - m.device(0);  // distance between the devices of the two nodes
  std::vector<DeviceId> adapters;
  for (Actor rank = 0; rank < 4; ++rank) adapters.push_back(m.hca_of(rank));
  CHECK(adapters[0] != adapters[1]);
  CHECK(adapters[2] == adapters[0] + on);
  CHECK(adapters[3] == adapters[1] + on);
  CHECK(m.socket_of(2) == m.socket_of(0) + on);
  m.link_state(m.graph().links_from(m.device(2)).front(), false);
  for (Actor rank = 0; rank < 4; ++rank) CHECK(m.hca_of(rank) == adapters[static_cast<std::size_t>(rank)]);
}

TEST_CASE("peer to peer reaches as far as the node permits; other messages go through host memory", "[routing]") {
  const std::vector<std::string> reaches{"none", "switch", "socket", "node"}, words{"PIX", "PHB", "SYS"};
  for (std::size_t reach = 0; reach < reaches.size(); ++reach) {
    const ClusterSpec box = two_sockets(reaches[reach]);
    const ClusterMachine m(box, SoftwareStack{});
    for (std::size_t other = 0; other < words.size(); ++other) {
      CAPTURE(reaches[reach], words[other]);
      const auto to = static_cast<Actor>(other + 1);
      const bool direct = other < reach;
      CHECK(route_name(m, 0, to) == words[other] + (direct ? "" : ", through host memory"));
      CHECK(route_name(m, to, 0) == route_name(m, 0, to));
      const double hops = words[other] == "PIX" ? 2 : words[other] == "PHB" ? 4 : 3;
      const double socket_hop = words[other] == "SYS" ? 300e-9 : 0;
      if (direct) {
        const double rate = words[other] == "SYS" ? 12e9 : 16e9;
        CHECK(transfer_ms(box, {{0, to, kLarge}}) == near((hops * 100e-9 + socket_hop + kLarge.value / rate) * 1e3));
        continue;
      }
      // Through the memory of the sender's socket, which both legs use; to GPU 1 the switch is crossed twice.
      const double staged_hops = words[other] == "PIX" ? 4 : hops;
      const std::vector<double> legs{1 / 16e9, words[other] == "SYS" ? 1 / 12e9 : 1 / 16e9};
      for (const Bytes size : {kSmall, kLarge})
        CHECK(transfer_ms(box, {{0, to, size}}) ==
              near(staged_ms(size, staged_hops * 100e-9 + socket_hop, legs, 20e9 / 2)));
    }
  }
}

TEST_CASE("GPUs with links between them use these, however fast PCIe is", "[routing]") {
  for (const char* rate : {"64 GB/s", "500 GB/s", "50 TB/s"}) {
    CAPTURE(rate);
    const ClusterSpec box = read_scenario_text("cluster: {node: {base: mi355x-8x, pcie: {rate: " + std::string(rate) +
                                                   "}}}\nmodel: gpt2\nplan: {micro_batch_size: 1}\n",
                                               "box.yaml")
                                .cluster;
    const ClusterMachine m(box, SoftwareStack{});
    for (Actor to = 1; to < 8; ++to) CHECK(route_name(m, 0, to) == "NV");
  }
}

TEST_CASE("NVLink needs no permission, and a GPU has no distance to itself", "[routing]") {
  const ClusterSpec box = cluster_of(2, R"(interconnect: graph
sockets: 1
pcie: {rate: 16 GB/s, latency: 0 us, peer_to_peer: none}
nvlink: {latency: 1 us}
wires:
  - {from: gpu0, to: cpu0}
  - {from: gpu1, to: cpu0}
  - {from: gpu0, to: gpu1, kind: NVLink, rate: 50 GB/s}
)");
  const ClusterMachine m(box, SoftwareStack{});
  CHECK(route_name(m, 0, 1) == "NV");
  CHECK(route_name(m, 0, 1, PathClass::pcie) == "PHB, through host memory");
  CHECK(route_name(m, 0, 1, PathClass::network) == "PHB, through host memory");
  CHECK(route_name(m, 0, 0) == "X");
  CHECK(m.route(0, 0, PathClass::automatic).legs.empty());
}

TEST_CASE("between nodes: RDMA from the GPU's memory, or through host memory", "[routing]") {
  const ClusterSpec direct = two_nodes("", ""), staged = two_nodes(", gpudirect: false", "");
  CHECK(route_name(ClusterMachine(direct, {}), 0, 2) == "NET, RDMA");
  CHECK(transfer_ms(direct, {{0, 2, kLarge}}) == near((2e-6 + 10e6 / 5e9) * 1e3));
  const ClusterMachine m(staged, {});
  CHECK(route_name(m, 0, 2) == "NET, RDMA through host memory");
  CHECK(m.route(0, 2, PathClass::automatic).legs.size() == 3);
  for (const Bytes size : {kSmall, kLarge})
    CHECK(transfer_ms(staged, {{0, 2, size}}) == near(staged_ms(size, 2e-6, {1 / 16e9, 1 / 5e9, 1 / 16e9}, 5e9)));
  // A host's data are in its memory already.
  CHECK(route_name(m, 4, 5) == "NET, RDMA");
  CHECK(transfer_ms(staged, {{4, 5, kLarge}}) == near((2e-6 + 10e6 / 5e9) * 1e3));
  // Transfers from the GPU and reads of the adapter share the memory bandwidth of a host.
  const ClusterSpec slow = two_nodes(", gpudirect: false", "memory_bandwidth: 8 GB/s");
  CHECK(transfer_ms(slow, {{0, 2, kLarge}}) == near(staged_ms(kLarge, 2e-6, {1 / 8e9, 1 / 5e9, 1 / 8e9}, 4e9)));
}

TEST_CASE("TCP copies on both sides, at the CPU's rate", "[routing]") {
  const ClusterSpec tcp = two_nodes(", transport: tcp, copies: 2", "copy_rate: 8 GB/s");
  const ClusterMachine m(tcp, {});
  CHECK(route_name(m, 0, 2) == "NET, TCP");
  CHECK(m.route(0, 2, PathClass::automatic).legs.size() == 5);
  const std::vector<double> legs{1 / 16e9, 2 / 8e9, 1 / 5e9, 2 / 8e9, 1 / 16e9};
  for (const Bytes size : {kSmall, kLarge})
    CHECK(transfer_ms(tcp, {{0, 2, size}}) == near(staged_ms(size, 2e-6, legs, 4e9)));
  // Nothing is staged from host to host.
  CHECK(m.route(4, 5, PathClass::automatic).legs.size() == 3);
  CHECK(transfer_ms(tcp, {{4, 5, kSmall}}) == near(staged_ms(kSmall, 2e-6, {2 / 8e9, 1 / 5e9, 2 / 8e9}, 0)));
  // Two GPUs have an HCA each, but one CPU copies for both.
  CHECK(transfer_ms(tcp, {{0, 2, kLarge}, {1, 3, kLarge}}) == near(staged_ms(Bytes{20e6}, 2e-6, legs, 4e9)));
  // Copies read and write memory: 4 · 2 GB/s beside the two other legs.
  const ClusterSpec bound = two_nodes(", transport: tcp, copies: 2", "copy_rate: 8 GB/s, memory_bandwidth: 12 GB/s");
  const std::vector<double> in_memory{1 / 12e9, 4 / 12e9, 1 / 5e9, 4 / 12e9, 1 / 12e9};
  CHECK(transfer_ms(bound, {{0, 2, kLarge}}) == near(staged_ms(kLarge, 2e-6, in_memory, 12e9 / 6)));
  // Copies are free if there are none, or if the CPU does not state their rate.
  CHECK(ClusterMachine(two_nodes(", transport: tcp, copies: 0", "copy_rate: 8 GB/s"), {})
            .route(0, 2, PathClass::automatic)
            .legs.size() == 3);
  CHECK(ClusterMachine(two_nodes(", transport: tcp", ""), {}).route(0, 2, PathClass::automatic).legs.size() == 3);
}

TEST_CASE("nodes with TCP and nodes without it communicate by TCP", "[routing]") {
  ClusterSpec mixed = two_nodes("", "copy_rate: 8 GB/s");
  mixed.others.push_back({1, two_nodes(", transport: tcp", "copy_rate: 8 GB/s").node});
  const ClusterMachine m(mixed, {});
  for (const auto& [from, to] : {std::pair{0, 2}, {2, 0}}) {
    CHECK(route_name(m, from, to) == "NET, TCP");
    CHECK(m.route(from, to, PathClass::automatic).legs.size() == 5);  // staged and copied on both sides
  }
}

TEST_CASE("each GPU has an HCA, even if its data pass through host memory", "[routing]") {
  for (const char* transport : {"", ", gpudirect: false", ", transport: tcp"}) {
    CAPTURE(transport);
    const ClusterMachine own(two_nodes(transport, "copy_rate: 8 GB/s"), {});
    const ClusterMachine crossed(two_nodes(std::string(transport) + ", of_gpu: [1, 0]", "copy_rate: 8 GB/s"), {});
    const auto takes = [](const ClusterMachine& m, Actor from, Actor to, const char* wire) {
      const std::vector<std::string> names = links_of(m, from, to);
      return std::find(names.begin(), names.end(), wire) != names.end();
    };
    CHECK(takes(own, 0, 3, "node0/hca0 -> fabric"));
    CHECK(takes(own, 0, 3, "fabric -> node1/hca1"));
    CHECK(takes(own, 1, 2, "node0/hca1 -> fabric"));
    CHECK(takes(crossed, 0, 3, "node0/hca1 -> fabric"));
    CHECK(takes(crossed, 0, 3, "fabric -> node1/hca0"));
  }
}

TEST_CASE("a GPU whose HCA is cut off takes another, by the same transport", "[routing]") {
  for (const char* transport : {"", ", gpudirect: false", ", transport: tcp"}) {
    ClusterSpec spec = two_nodes(transport, "copy_rate: 8 GB/s");
    const ClusterMachine whole(spec, {});
    spec.taken_out.push_back({"node0/hca0 - fabric", spec.place});
    const ClusterMachine cut(spec, {});
    CHECK(route_name(cut, 0, 2) == route_name(whole, 0, 2));
    CHECK(cut.route(0, 2, PathClass::automatic).legs.size() == whole.route(0, 2, PathClass::automatic).legs.size());
    CHECK_THAT(links_of(cut, 0, 2), Catch::VectorContains(std::string("node0/hca1 -> fabric")));
    CHECK_THAT(links_of(cut, 2, 0), Catch::VectorContains(std::string("fabric -> node0/hca1")));
    spec.taken_out.push_back({"node0/hca1", spec.place});
    CHECK(route_name(ClusterMachine(spec, {}), 0, 2) == "none");
  }
}

TEST_CASE("half duplex: both directions share a rate", "[routing]") {
  const std::vector<Transfer> both{{0, 1, Bytes{1e9}}, {1, 0, Bytes{1e9}}};
  CHECK(transfer_ms(hosts_of(2, "rate: 10 GB/s"), both) == near(100));
  CHECK(transfer_ms(hosts_of(2, "rate: 10 GB/s, duplex: half"), both) == near(200));
  const auto pcie = [](const char* duplex) {
    return cluster_of(2, std::string("interconnect: pcie\npcie: {rate: 10 GB/s, latency: 0 us") + duplex + "}\n");
  };
  CHECK(transfer_ms(pcie(""), both) == near(100));
  CHECK(transfer_ms(pcie(", duplex: half"), both) == near(200));
}

TEST_CASE("NVMe drives are read and written through host memory, each at its rate", "[routing]") {
  const ClusterSpec box = cluster_of(1, R"(interconnect: pcie
pcie: {rate: 16 GB/s, latency: 0 us}
nvme: {count: 2, read: 3 GB/s, write: 2 GB/s, latency: 10 us}
staging_chunk: 1 MB
)");
  const ClusterMachine m(box, {});
  const Actor gpu = 0, cpu = 1, drive = 2, other = 3;
  CHECK(m.actor_name(drive) == "node0/nvme0");
  CHECK(route_name(m, drive, gpu) == "PHB, through host memory");
  CHECK(route_name(m, drive, other) == "PHB, through host memory");
  CHECK(route_name(m, drive, cpu) == "PHB");
  for (const Bytes size : {kSmall, kLarge}) {
    CHECK(transfer_ms(box, {{drive, gpu, size}}) == near(staged_ms(size, 10e-6, {1 / 3e9, 1 / 16e9}, 3e9)));
    CHECK(transfer_ms(box, {{gpu, drive, size}}) == near(staged_ms(size, 10e-6, {1 / 16e9, 1 / 2e9}, 2e9)));
    CHECK(transfer_ms(box, {{cpu, drive, size}}) == near((10e-6 + size.value / 2e9) * 1e3));
  }
  // Lanes of PCIe at 16 GB/s an x16: one lane is slower than the drive.
  const ClusterSpec narrow = cluster_of(1, R"(interconnect: pcie
pcie: {rate: 16 GB/s, latency: 0 us}
nvme: {count: 1, read: 3 GB/s, latency: 0 us, lanes: 1}
)");
  CHECK(transfer_ms(narrow, {{2, 1, kLarge}}) == near(10.0));
  // To another node: into host memory, then the network.
  const ClusterSpec far = two_nodes("", "", "nvme: {count: 1, read: 3 GB/s, latency: 10 us}\n");
  const ClusterMachine network(far, {});
  CHECK(network.actor_name(6) == "node0/nvme0");
  CHECK(route_name(network, 6, 2) == "NET, RDMA through host memory");
  CHECK(transfer_ms(far, {{6, 2, kSmall}}) == near(staged_ms(kSmall, 12e-6, {1 / 3e9, 1 / 5e9}, 0)));
}

TEST_CASE("hosts send too: between sockets, and at the rate of their memory", "[routing]") {
  const ClusterSpec box = two_sockets("socket");
  const Actor first = host_of(box, 0), second = host_of(box, 1);
  const ClusterMachine m(box, {});
  CHECK(route_name(m, first, second) == "SYS");
  CHECK(route_name(m, first, 0) == "PHB");
  CHECK(transfer_ms(box, {{first, second, kLarge}}) == near((300e-9 + 10e6 / 12e9) * 1e3));
  // To three GPUs at once over two uplinks of 16 GB/s each: the memory's 20 GB/s limit.
  CHECK(transfer_ms(box, {{first, 0, kLarge}, {first, 2, kLarge}}) == near((200e-9 + 20e6 / 20e9) * 1e3));
}

TEST_CASE("a class of wires restricts the path, and the software's latency is added between nodes", "[routing]") {
  SoftwareStack stack;
  stack.network_step = Seconds{5e-6};
  const ClusterMachine m(two_nodes(", gpudirect: false", ""), stack);
  for (const PathClass path : {PathClass::nvlink, PathClass::pcie}) CHECK(route_name(m, 0, 2, path) == "none");
  CHECK(route_name(m, 0, 2, PathClass::network) == "NET, RDMA through host memory");
  const Route route = m.route(0, 2, PathClass::automatic);
  CHECK(route.latency.count == 7000000);
  Picoseconds legs;
  for (const Leg& leg : route.legs) legs += leg.latency;
  CHECK(legs == route.latency);
  CHECK(route.legs.front().latency.count == 5000000);  // paid before anything moves
  CHECK(m.route(0, 1, PathClass::automatic).latency.count == 0);
}

TEST_CASE("chips joined by links of their own use them, within nodes and between", "[routing]") {
  const ClusterSpec pod = cluster_of(2, "interconnect: pcie\npcie: {rate: 16 GB/s, latency: 0 us}\n", 4,
                                     "{type: torus, joins: chips, dims: [2, 4], link_rate: 50 GB/s, "
                                     "switch_latency: 1 us}");
  SoftwareStack stack;
  stack.network_step = Seconds{5e-6};
  const ClusterMachine m(pod, stack);
  CHECK(route_name(m, 0, 1) == "ICI");
  CHECK(route_name(m, 0, 1, PathClass::pcie) == "PHB");
  CHECK(route_name(m, 0, 7) == "ICI");
  CHECK(m.route(0, 7, PathClass::automatic).latency.count == 2 * 1000000);  // (0, 0) to (1, 3), around
  CHECK(transfer_ms(pod, {{0, 1, kLarge}}) == near((1e-6 + 10e6 / 50e9) * 1e3));
  CHECK(route_name(m, host_of(pod, 0), host_of(pod, 1)) == "none");  // no HCA
}

TEST_CASE("slices of chips reach each other by the adapters of their hosts", "[routing]") {
  const ClusterSpec slices = cluster_of(
      2, "interconnect: pcie\npcie: {rate: 16 GB/s, latency: 0 us}\nhca: {count: 1, rate: 10 GB/s, latency: 1 us}\n", 4,
      "{type: torus, joins: chips, slices: 2, dims: [2, 2], link_rate: 50 GB/s, switch_latency: 1 us}");
  SoftwareStack stack;
  stack.network_step = Seconds{5e-6};
  const ClusterMachine m(slices, stack);
  CHECK(route_name(m, 0, 3) == "ICI");  // both nodes of the first slice
  CHECK(route_name(m, 4, 7) == "ICI");
  CHECK(route_name(m, 3, 4) == "NET, RDMA");
  CHECK(transfer_ms(slices, {{0, 3, kLarge}}) == near((2e-6 + 10e6 / 50e9) * 1e3));
  CHECK(transfer_ms(slices, {{4, 7, kLarge}}) == near((2e-6 + 10e6 / 50e9) * 1e3));
  CHECK(transfer_ms(slices, {{0, 4, kLarge}}) == near((3e-6 + 10e6 / 10e9) * 1e3));
  // The two chips of a host share its adapter.
  CHECK(transfer_ms(slices, {{0, 4, kLarge}, {1, 5, kLarge}}) == near((3e-6 + 2 * 10e6 / 10e9) * 1e3));
  CHECK(describe(slices).find("2 slices, each a torus") != std::string::npos);
  CHECK_THROWS_WITH(
      build_cluster(cluster_of(1,
                               "interconnect: pcie\npcie: {rate: 16 GB/s, latency: 0 us}\n"
                               "hca: {count: 1, rate: 10 GB/s, latency: 1 us}\n",
                               4, "{type: torus, joins: chips, slices: 3, link_rate: 50 GB/s, switch_latency: 1 us}")),
      Catch::Contains("3 slices do not divide the 4 nodes; nearest: 2 or 4"));
}

}  // namespace topologies_test_routing
