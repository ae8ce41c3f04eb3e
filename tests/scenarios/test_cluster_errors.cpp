// The errors of impossible clusters name the place, the fault, and the expected value.
#include <catch2/catch.hpp>

#include "scenarios/src/reading/read_cluster.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_cluster_errors {

using namespace trainyard;

namespace {

struct RefusedCluster {
  const char* text;
  const char* error;
};

std::string error_of(const std::string& cluster) {
  return test::user_error([&] {
    const Catalog catalog;
    build_cluster(read_cluster(parse_document(cluster, "c.yaml"), catalog));
  });
}

/// Checks the error of `lead` followed by each text.
void check_refused(const std::string& lead, const std::vector<RefusedCluster>& cases) {
  for (const RefusedCluster& refused : cases) {
    CAPTURE(refused.text);
    CHECK(error_of(lead + refused.text) == refused.error);
  }
}

}  // namespace

TEST_CASE("lists of node types are checked", "[cluster][errors]") {
  check_refused(
      "fabric: nonblocking\nnodes: ",
      {{"[{count: 2, node: dgx-a100}, {count: 1, node: dgx-a10}]",
        "c.yaml:2:54: unknown node \"dgx-a10\"; did you mean \"dgx-a100\"?"},
       {"[{count: 2, node: dgx-a100}, {count: 1, nod: dgx-a100}]",
        "c.yaml:2:48: unknown key \"nod\" in cluster.nodes.1; did you mean \"node\"?"},
       {"[]", "c.yaml:2:8: cluster.nodes: expected a count, or a list of {count, node}"},
       {"[4]", "c.yaml:2:9: cluster.nodes.0: expected a map of keys, got \"4\""},
       {"[{count: 2, node: dgx-a100}]\nnode: dgx-a100",
        "c.yaml:3:7: cluster.node: leave it out beside a list of nodes, which names their types (--set "
        "cluster.node=null)"},
       {"[{count: 16384, node: dgx-a100}, {count: 1, node: dgx-a100}]",
        "c.yaml:2:49: cluster.nodes: 16385 nodes; at most 16384"},
       {"[{count: 0, node: dgx-a100}]", "c.yaml:2:17: cluster.nodes.0.count: 0 is too small; the least is 1"},
       {"[{count: 2, node: dgx-a100}, {count: 1, node: pcie-2}]",
        "c.yaml:2:37: cluster.nodes.1: pcie-2 has no HCA; it cannot reach the other nodes"},
       {"2\nnode: pcie-2", "c.yaml:3:7: cluster.node: pcie-2 has no HCA; 2 nodes of it cannot reach each other"},
       {"2\nnode: dgx-a100\ngpu_speed: 0",
        "c.yaml:4:12: node dgx-a100: gpu_speed: 0 is out of range; expected a number from 0.001 to 1000"},
       {"2\nnode: dgx-a100\ncpu: {memory_bandwith: 3 GB/s}",
        "c.yaml:4:7: unknown key \"memory_bandwith\" in cpu epyc-7742; did you mean \"memory_bandwidth\"?"}});
}

TEST_CASE("the transports, adapters, drives and PCIe of a node are checked", "[cluster][errors]") {
  check_refused(
      "node: dgx-a100\n",
      {{"hca: {transport: udp}",
        "c.yaml:2:18: hca connectx-6: transport: unknown value \"udp\"; known: rdma, tcp, grpc"},
       {"hca: {transport: tcp, gpudirect: true}",
        "c.yaml:2:34: node dgx-a100: hca.gpudirect: not with transport tcp, whose data are copied by the CPU"},
       {"hca: {transport: grpc, gpudirect: true}",
        "c.yaml:2:35: node dgx-a100: hca.gpudirect: not with transport grpc, whose data are copied by the CPU"},
       {"hca: {loss: 1e-3}",
        "c.yaml:2:13: node dgx-a100: hca.loss: 0.001, but with flow_control credits an adapter sends no frame that has "
        "no room (InfiniBand); expected flow_control: none"},
       {"hca: {type: connectx-6-roce, loss: 1e-3}",
        "c.yaml:2:36: node dgx-a100: hca.loss: 0.001, but with flow_control pfc the switches pause the senders before "
        "a frame is lost; expected flow_control: none"},
       {"hca: {flow_control: none, loss: 0.6}",
        "c.yaml:2:33: node dgx-a100: hca.loss: 0.6 is out of range; expected a number from 0 to 0.5"},
       {"hca: {transport: tcp, flow_control: pfc}",
        "c.yaml:2:37: node dgx-a100: hca.flow_control: not with transport tcp or grpc, which expects losses; credits "
        "and pfc are for rdma"},
       {"hca: {transport: tcp, recovery: go-back-n}",
        "c.yaml:2:33: node dgx-a100: hca.recovery: TCP acknowledges selectively; expected selective-repeat"},
       {"hca: {connections: 4}", "c.yaml:2:20: node dgx-a100: hca.connections: with transport tcp or grpc only"},
       {"hca: {copies: 2}", "c.yaml:2:15: node dgx-a100: hca.copies: with transport tcp, 0 to 8"},
       {"hca: {transport: tcp, copies: 9}", "c.yaml:2:31: node dgx-a100: hca.copies: with transport tcp, 0 to 8"},
       {"hca: {of_gpu: [0, 1]}", "c.yaml:2:15: node dgx-a100: hca.of_gpu: expected a list of 8 HCAs, one for each GPU"},
       {"hca: {of_gpu: [0, 1, 2, 3, 4, 5, 6, 8]}", "c.yaml:2:37: node dgx-a100: hca.of_gpu: 8, expected 0 to 7"},
       {"hca: {duplex: halb}",
        "c.yaml:2:15: node dgx-a100: hca.duplex: unknown value \"halb\"; did you mean \"half\"?"},
       {"staging_chunk: 0 MB", "c.yaml:2:16: node dgx-a100: staging_chunk: \"0 MB\" must be greater than 0"},
       {"nvme: {count: 2, read: 3 GB/s, latency: 10 us, lanes: 3}",
        "c.yaml:2:55: node dgx-a100: nvme.lanes: 3 lanes; PCIe links have 1, 2, 4, 8 or 16"}});
  check_refused(
      "node: {gpu: {count: 4, type: t4}, interconnect: pcie,\n  ",
      {{"pcie: {latency: 1 us, lanes_per_socket: 16, device_lanes: 4},\n"
        "  nvme: {count: 1, read: 3 GB/s, latency: 1 us}}",
        "c.yaml:1:7: cluster.node: node custom-node: 4 devices at x4 and 1 NVMe drive need 20 PCIe lanes, but there "
        "are 16: 3 devices fit at x4 besides the others"},
       {"pcie: {latency: 1 us, peer_to_peer: swich}}",
        "c.yaml:2:39: node custom-node: pcie.peer_to_peer: unknown value \"swich\"; did you mean \"switch\"?"},
       {"pcie: {latency: 1 us, rate: 0 GB/s}}",
        "c.yaml:2:31: node custom-node: pcie.rate: \"0 GB/s\" must be greater than 0"},
       {"pcie: {latency: -1 us}}", "c.yaml:2:19: node custom-node: pcie.latency: \"-1 us\" must be 0 or more"}});
}

TEST_CASE("nodes that are described wire by wire are checked", "[cluster][errors]") {
  check_refused("node: {gpu: {count: 2, type: t4}, interconnect: graph,\n  ",
                {{"wires: [{from: gpu0, to: cpu0, rate: 10 GB/s, latency: 1 us}]}",
                  "c.yaml:2:11: node custom-node: no wires lead from gpu0 to gpu1"},
                 {"wires: [{from: gpu0, to: gpu2, rate: 10 GB/s, latency: 1 us}]}",
                  "c.yaml:2:28: node custom-node: wires.0.to: the wire ends at \"gpu2\", which is no device of the "
                  "node; did you mean \"gpu0\"?"},
                 {"wires: [{from: gpu0, to: gpu0, rate: 10 GB/s, latency: 1 us}]}",
                  "c.yaml:2:11: node custom-node: wires.0: joins gpu0 with itself"},
                 {"wires: [{from: gpu0, to: gpu1, latency: 1 us}]}",
                  "c.yaml:2:11: node custom-node: wires.0: missing key \"rate\""},
                 {"wires: [{from: gpu0, to: gpu1, rate: 1 GB/s}]}",
                  "c.yaml:2:11: node custom-node: wires.0: missing key \"latency\""},
                 {"wires: [{from: gpu0, to: gpu1, rate: -1 GB/s, latency: 1 us}]}",
                  "c.yaml:2:40: node custom-node: wires.0.rate: \"-1 GB/s\" must be greater than 0"},
                 {"wires: [{from: gpu0, to: gpu1, rate: 0 GB/s, latency: 1 us}]}",
                  "c.yaml:2:40: node custom-node: wires.0.rate: \"0 GB/s\" must be greater than 0"},
                 {"wires: [{from: gpu0, to: gpu1, kind: NVLnk, rate: 1 GB/s, latency: 1 us}]}",
                  "c.yaml:2:40: node custom-node: wires.0.kind: unknown value \"NVLnk\"; did you mean \"NVLink\"?"},
                 {"wires: []}",
                  "c.yaml:2:10: node custom-node: wires: expected a list such as [{from: gpu0, to: cpu0, kind: PCIe}]"},
                 {"switches: [gpu0], wires: [{from: gpu0, to: gpu1, rate: 1 GB/s, latency: 1 us}]}",
                  "c.yaml:2:14: node custom-node: switches: \"gpu0\" is there twice"}});
  CHECK(error_of("nodes: 2\nfabric: nonblocking\nnode: {gpu: {count: 1, type: t4}, interconnect: graph,\n"
                 "  hca: {count: 1, rate: 1 GB/s, latency: 1 us, transport: tcp},\n"
                 "  wires: [{from: gpu0, to: hca0, rate: 1 GB/s, latency: 1 us}]}") ==
        "c.yaml:5:11: node custom-node: messages of gpu0 are staged in host memory (hca.gpudirect), but no PCIe leads "
        "from it to a CPU");
  // Wires join each GPU to the CPU, so the CPU's lanes are not divided among the GPUs.
  CHECK(error_of("node: {gpu: {count: 3, type: t4}, cpu: {lanes: 2}, interconnect: graph, pcie: {latency: 1 us},\n"
                 "  wires: [{from: gpu0, to: cpu0}, {from: gpu1, to: cpu0}, {from: gpu2, to: cpu0}]}") == "");
}

TEST_CASE("tori and dragonflies that do not fit are refused", "[cluster][errors]") {
  check_refused(
      "nodes: 4\nnode: dgx-a100\nfabric: {switch_latency: 1 us, ",
      {{"type: torus, dims: [2, 3]}", "c.yaml:3:9: a torus of 2 x 3 has 6 places, but there are 4 nodes"},
       {"type: torus, dims: [1048576, 1048576]}",
        "c.yaml:3:9: a torus of 1048576 x 1048576 has 1099511627776 places, but there are 4 nodes"},
       {"type: torus, dims: [0, 4]}",
        "c.yaml:3:52: fabric custom-fabric.dims: expected one to 6 lengths, such as [4, 4, 4]"},
       {"type: torus, dims: [1, 1, 1, 1, 1, 1, 4]}",
        "c.yaml:3:51: fabric custom-fabric.dims: expected one to 6 lengths, such as [4, 4, 4]"},
       {"type: torus, dimensions: 9223372036854775807}",
        "c.yaml:3:57: fabric custom-fabric: dimensions: 9223372036854775807 is too many; the most is 6"},
       {"type: torus, dimensions: 4294967297}",
        "c.yaml:3:57: fabric custom-fabric: dimensions: 4294967297 is too many; the most is 6"},
       {"type: torus, joins: chips, node_dims: [65536, 65536]}",
        "c.yaml:3:70: fabric custom-fabric: node_dims: 65536 x 65536 are 4294967296 places; at most 1048576"},
       {"type: torus, dimensions: 7}", "c.yaml:3:57: fabric custom-fabric: dimensions: 7 is too many; the most is 6"},
       {"type: torus, joins: chips, dims: [4, 8]}",
        "c.yaml:3:9: fabric: missing key \"link_rate\": a100-sxm4-80gb states no links between chips"},
       {"type: torus, joins: chips, dims: [4, 8], node_dims: [3, 3], link_rate: 50 GB/s}",
        "c.yaml:3:9: node_dims of 3 x 3 hold 9 chips, but a node has 8"},
       {"type: torus, joins: chips, dims: [4, 8], node_dims: [8, 1], link_rate: 50 GB/s}",
        "c.yaml:3:9: a torus of 4 x 8 is not made of blocks of 8 x 1"},
       {"type: torus, wrapp: false}",
        "c.yaml:3:45: unknown key \"wrapp\" in fabric custom-fabric; did you mean \"wrap\"?"},
       {"type: ring, dims: [4]}",
        "c.yaml:3:44: unknown key \"dims\" in fabric custom-fabric; known: name, description, sources, type, switch, "
        "switch_latency, distance, link_rate, wrap, oversubscription, sharp"},
       {"type: dragonfly, switches_a_group: 2, hosts_a_switch: 1, global_links: 1}",
        "c.yaml:3:9: a dragonfly of 16 groups needs 15 global links a group, but has 2 (2 switches of 1)"},
       {"type: dragonfly}", "c.yaml:3:9: fabric custom-fabric: missing key \"switches_a_group\""},
       {"type: dragonfly, switches_a_group: 5000}",
        "c.yaml:3:67: fabric custom-fabric: switches_a_group: 5000 is too many; the most is 4096"},
       {"type: dragonfly, switches_a_group: 4, routing: minimum}",
        "c.yaml:3:79: fabric custom-fabric: routing: unknown value \"minimum\"; did you mean \"minimal\"?"}});
}

TEST_CASE("Clos fabrics switch by switch, distances and frames are checked", "[cluster][errors]") {
  check_refused(
      "nodes: 4\nnode: dgx-a100\n",
      {{"fabric: {base: leaf-spine, levels: [{down: 8, oversubscription: 3}], routing: ecmp}",
        "c.yaml:3:9: level 0: 8 ports down at 3:1 make 2.667 uplinks; switch by switch they must be a whole number"},
       {"fabric: {base: leaf-spine, levels: [{down: 8, oversubscription: 3}]}\ntaken_out: [spine0]",
        "c.yaml:3:9: level 0: 8 ports down at 3:1 make 2.667 uplinks; switch by switch they must be a whole number"},
       // One leaf connects all nodes, so it has no uplinks.
       {"fabric: {base: leaf-spine, levels: [{down: 32, oversubscription: 5}], routing: ecmp}", ""},
       {"fabric: {base: leaf-spine, levels: [{down: 8}], routing: ecpm}",
        "c.yaml:3:58: fabric leaf-spine: routing: unknown value \"ecpm\"; did you mean \"ecmp\"?"},
       {"fabric: {base: leaf-spine, levels: [{down: 8}]}\ntaken_out: spine0",
        "c.yaml:4:12: cluster.taken_out: expected a list of switches and wires, such as [spine3, leaf0 - spine1]"},
       {"fabric: {base: leaf-spine, levels: [{down: 8}]}\ntaken_out: [{a: b}]",
        "c.yaml:4:13: cluster.taken_out: expected names, such as spine3"},
       {"fabric: {base: leaf-spine, levels: [{down: 8}]}\ntaken_out: [spine10]",
        "c.yaml:4:13: cluster.taken_out: unknown device \"spine10\"; did you mean \"spine0\"?"},
       {"fabric: {type: nonblocking, switch_latency: 1 us, distance: 30}",
        "c.yaml:3:61: fabric custom-fabric: distance: \"30\" is no distance; expected one such as 30 m or 100 km"},
       {"fabric: {type: nonblocking, switch_latency: 1 us, distance: 30 miles}",
        "c.yaml:3:61: fabric custom-fabric: distance: \"30 miles\" is no distance; expected one such as 30 m or 100 "
        "km"},
       {"fabric: {type: nonblocking, switch_latency: 1 us, distance: -3 km}",
        "c.yaml:3:61: fabric custom-fabric: distance: \"-3 km\" is no distance; expected one such as 30 m or 100 km"},
       {"fabric: {type: ethernet, switch_latency: 1 us, mtu: 20}",
        "c.yaml:3:53: fabric custom-fabric: mtu: 20 is too small; the least is 68"},
       {"fabric: {type: nonblockin, switch_latency: 1 us}",
        "c.yaml:3:16: fabric custom-fabric: type: unknown value \"nonblockin\"; did you mean \"nonblocking\"?"}});
}

TEST_CASE("fabrics that are described link by link are checked", "[cluster][errors]") {
  check_refused(
      "nodes: 2\nnode: t4-server\nfabric: {type: graph, switch_latency: 1 us,\n  ",
      {{"switches: [a, b], links: [{from: node0/hca0, to: a}, {from: node1/hca0, to: b}]}",
        "c.yaml:4:29: fabric: no links lead from node0/hca0 to node1/hca0"},
       {"switches: [a, b], links: [{from: node0/hca0, to: a}, {from: a, to: b}]}",
        "c.yaml:4:56: fabric custom-fabric: links.1: missing key \"rate\" of a link between switches"},
       {"switches: [a], links: [{from: node0/hca0, to: a}, {from: node1/hca1, to: a}]}",
        "c.yaml:4:53: fabric: a link ends at \"node1/hca1\", which is no switch or HCA; did you mean \"node1/hca0\"?"},
       {"switches: [a], links: [{from: node0/hca0, to: a, rate: 0 GB/s}]}",
        "c.yaml:4:58: fabric custom-fabric: links.0.rate: \"0 GB/s\" must be greater than 0"},
       {"switches: [a, a], links: [{from: node0/hca0, to: a}]}",
        "c.yaml:4:17: fabric custom-fabric: switches: \"a\" is there twice"},
       {"switches: [a], links: [{from: a, to: a, rate: 1 GB/s}]}",
        "c.yaml:4:26: fabric custom-fabric: links.0: joins a with itself"},
       // Messages do not pass through another node's HCA, but these two nodes share a switch.
       {"switches: [a, b], links: [{from: node0/hca0, to: a}, {from: node1/hca0, to: b}, {from: node1/hca0, to: a}]}",
        ""}});
  CHECK(error_of("nodes: 3\nnode: t4-server\nfabric: {type: graph, switch_latency: 1 us, switches: [a, b],\n"
                 "  links: [{from: node0/hca0, to: a}, {from: node1/hca0, to: a}, {from: node1/hca0, to: b}, {from: "
                 "node2/hca0, to: b}]}") == "c.yaml:4:11: fabric: no links lead from node0/hca0 to node2/hca0");
}

}  // namespace scenarios_test_cluster_errors
