// NCCL's choices of algorithms by its version, by the abilities of the network's switches, and by the adapters of
// messages.
#include <fmt/format.h>

#include <future>

#include "models/fitted/nccl_cost.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "strategies/collectives/library_model.hpp"
#include "tests/collective_options.hpp"
#include "tests/strategies/chosen_collective.hpp"
#include "tests/support.hpp"

namespace strategies_test_nccl_choices {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ClusterSpec machine(const std::string& text) { return read_cluster(parse_document(text, "machine.yaml"), Catalog()); }

ClusterSpec nodes_on(int nodes, const std::string& node, const std::string& fabric) {
  return machine(fmt::format("{{nodes: {}, node: {}, fabric: {}}}", nodes, node, fabric));
}

const std::string kSharp = "{base: nonblocking, sharp: true}";

/// Returns the cost of the collective on all GPUs, or on one GPU of each node.
NcclCost cost_on(const ClusterSpec& cluster, NcclOperation operation, double size, const NcclChoice& choice = {},
                 bool one_per_node = false) {
  const NcclNode node = nccl_nodes(cluster, choice).front();
  const int local = one_per_node ? 1 : cluster.node.gpus;
  const NcclCall call = node.call(operation, Bytes{size}, {local * cluster.nodes, cluster.nodes, local});
  return nccl_cost(node.model(call), call);
}

std::string protocol(const ClusterSpec& cluster, NcclOperation operation, double size, const std::string& version,
                     bool one_per_node = false) {
  return cost_on(cluster, operation, size, {parse_nccl_version(version)}, one_per_node).protocol;
}

CollectiveRun modelled(const ClusterSpec& cluster, Operation operation, double size, const NcclChoice& choice = {}) {
  return run_chosen(cluster, operation, Bytes{size}, "{fidelity: modelled}", choice);
}

/// Returns the bytes on the links between switches.
double between_switches(const CollectiveRun& run) {
  double bytes = 0;
  for (const auto& [link, link_bytes] : run.links)
    if (link.find("node") == std::string::npos) bytes += link_bytes;
  return bytes;
}

constexpr double kLarge = 1e9;

}  // namespace

TEST_CASE("NCCL chooses from the algorithms of its version", "[collectives][nccl]") {
  const ClusterSpec one_node = machine("{nodes: 1, node: dgx-h100}");
  CHECK(protocol(one_node, NcclOperation::all_reduce, kLarge, "2.16.2") == "ring, Simple");
  CHECK(protocol(one_node, NcclOperation::all_reduce, kLarge, "2.17.1") == "NVLS");
  const ClusterSpec eight_nodes = nodes_on(8, "dgx-h100", "nonblocking");
  CHECK(protocol(eight_nodes, NcclOperation::all_reduce, kLarge, "2.17") != "NVLS tree");
  CHECK(protocol(eight_nodes, NcclOperation::all_reduce, 1024, "2.4") == "tree, LL");
  CHECK(protocol(eight_nodes, NcclOperation::all_reduce, 1024, "2.3.7") == "ring, LL");
  const ClusterSpec two_nodes = nodes_on(2, "dgx-h100", "nonblocking");
  CHECK(protocol(two_nodes, NcclOperation::all_reduce, kLarge, "2.18.1-1") == "NVLS tree");
  CHECK(protocol(two_nodes, NcclOperation::all_reduce, kLarge, "2.17.1") == "ring, Simple");
  for (double size = 1024; size < 1e9; size *= 4)
    CHECK(protocol(eight_nodes, NcclOperation::all_gather, size, "2.4.8").find("LL128") == std::string::npos);
  // PAT works with one GPU per node. At large sizes the tuner gives it three quarters of a ring's rate.
  const ClusterSpec sixteen_nodes = nodes_on(16, "dgx-h100", "nonblocking");
  CHECK(protocol(sixteen_nodes, NcclOperation::all_gather, 8e6, "2.23", true) == "PAT");
  CHECK(protocol(sixteen_nodes, NcclOperation::all_gather, 8e6, "2.22", true) != "PAT");
  CHECK(protocol(sixteen_nodes, NcclOperation::all_gather, 8e9, "2.29", true) == "ring, Simple");
  CHECK(protocol(sixteen_nodes, NcclOperation::all_gather, 8e6, "2.23") != "PAT");
}

TEST_CASE("the channels of a tree limit an all-reduce of two nodes", "[collectives][nccl]") {
  const auto rate = [](const std::string& node) {
    const NcclCost cost = cost_on(nodes_on(2, node, "nonblocking"), NcclOperation::all_reduce, kLarge, {{2, 12}});
    CHECK(std::string(cost.protocol) == "tree, Simple");
    return kLarge / (cost.time - cost.latency).value / 1e9;
  };
  CHECK(rate("{base: dgx-a100, hca: {count: 4}}") == Approx(4 * 23.6 / 2));  // one channel for each adapter
  CHECK(rate("{base: dgx-a100, hca: {count: 4, rate: 400 Gbit/s}}") == Approx(8 * 23.6 / 2));
  CHECK(rate("p4d.24xlarge") < 4 * 12.5);  // the adapters' rate is less
  CHECK(rate("gh200-4x") > 4 * 23.6 / 2);  // 41.4 GB/s a channel from Hopper on
}

TEST_CASE("an older NCCL is never faster", "[collectives][nccl][metamorphic]") {
  for (const char* node : {"dgx-h100", "dgx-a100", "dgx-b200"})
    for (const int nodes : {1, 2, 5, 16}) {
      const ClusterSpec cluster = nodes_on(nodes, node, kSharp);
      for (double size = 8; size < 1e10; size *= 64) {
        double before = 1e9;
        for (const char* version : {"2.3", "2.4", "2.5", "2.14", "2.17", "2.18", "2.23", "2.29", "2.99"}) {
          CAPTURE(node, nodes, size, version);
          const double now =
              cost_on(cluster, NcclOperation::all_reduce, size, {parse_nccl_version(version)}).time.value;
          CHECK(now <= before * (1 + 1e-12));
          // From 8 MiB on NCCL sums in the switch of a node, even if this is slower: see nccl_cost.
          before = nodes == 1 ? 1e9 : now;
        }
      }
    }
}

TEST_CASE("unknown versions of NCCL are refused", "[nccl]") {
  CHECK(parse_nccl_version("2.18.3-1") == NcclVersion{2, 18});
  CHECK(NcclVersion{2, 18}.text() == "2.18");
  for (const char* wrong : {"", "2", "2.", "two", "2.x", "3.1", "-2.18", "2.18b", "2.18 ", "2.12345"})
    CHECK_THROWS_WITH(parse_nccl_version(wrong),
                      fmt::format("\"{}\" is no version of NCCL; expected one such as 2.18 or 2.18.3", wrong));
}

TEST_CASE("with SHARP each node sends the buffer once, on any number of nodes", "[collectives][nccl]") {
  constexpr double share = 0.8;  // NVIDIA's rule of thumb: 20 GB/s for an adapter of 200 Gbit/s
  for (const int nodes : {4, 16, 64}) {
    CAPTURE(nodes);
    const ClusterSpec four = nodes_on(nodes, "{base: dgx-a100, hca: {count: 2}}", kSharp);
    const NcclCost cost = cost_on(four, NcclOperation::all_reduce, kLarge);
    CHECK(std::string(cost.protocol).starts_with("CollNet"));
    CHECK(cost.wire.value == near(kLarge));
    CHECK(cost.rate.value == near(share * 2 * 25e9));
    CHECK(cost.limited_by == LinkKind::hca);
    CHECK(cost.latency < Seconds{400e-6});
  }
  // Eight adapters are faster than the node's own links: NVIDIA's 110 GB/s on a DGX A100 (NVIDIA/nccl issue 320) move
  // twice the buffer through each GPU.
  const NcclCost by_links = cost_on(nodes_on(16, "dgx-a100", kSharp), NcclOperation::all_reduce, 8e9);
  CHECK(8e9 / by_links.time.value == Approx(110e9).epsilon(0.05));
  CHECK(by_links.limited_by == LinkKind::nvlink);
}

TEST_CASE("SHARP must be enabled, and is then used if it is faster", "[collectives][nccl]") {
  const ClusterSpec plain = nodes_on(16, "dgx-h100", "nonblocking"), sharp = nodes_on(16, "dgx-h100", kSharp);
  const auto name = [](const ClusterSpec& cluster, double size, const char* version) {
    return protocol(cluster, NcclOperation::all_reduce, size, version);
  };
  CHECK(name(plain, kLarge, "2.29") == "NVLS tree");
  CHECK(name(sharp, kLarge, "2.29") == "NVLS, SHARP");
  const ClusterSpec without_nvls = nodes_on(16, "dgx-a100", kSharp);
  CHECK(name(without_nvls, kLarge, "2.12") == "CollNet direct");
  CHECK(name(without_nvls, kLarge, "2.8") == "CollNet chain");
  CHECK(name(without_nvls, kLarge, "2.5").find("CollNet") == std::string::npos);
  CHECK(name(sharp, 1024, "2.29") == "tree, LL");
  for (double size = 8; size < 1e10; size *= 4)
    CHECK(cost_on(sharp, NcclOperation::all_reduce, size).time <= cost_on(plain, NcclOperation::all_reduce, size).time);
  // An all-gather has no sums, so SHARP cannot help.
  CHECK(cost_on(sharp, NcclOperation::all_gather, kLarge).time.value ==
        near(cost_on(plain, NcclOperation::all_gather, kLarge).time.value));
  // The simulated links agree: an adapter carries an eighth of the buffer.
  const CollectiveRun run = modelled(nodes_on(4, "dgx-h100", kSharp), Operation::all_reduce, kLarge);
  CHECK(run.links.at("node0/hca0 -> fabric") == near(kLarge / 8));
  CHECK(run.time < modelled(nodes_on(4, "dgx-h100", "nonblocking"), Operation::all_reduce, kLarge).time);
  CHECK(describe(sharp).find("nonblocking with SHARP") != std::string::npos);
}

TEST_CASE("SHARP is refused if no switch can add", "[collectives][nccl]") {
  const auto refused = [](const std::string& node, const std::string& fabric, const std::string& says) {
    CHECK_THROWS_WITH(nodes_on(2, node, fabric),
                      Catch::Contains("machine.yaml:1:") && Catch::Contains("sharp: " + says));
  };
  refused("dgx-h100", "{base: ethernet, sharp: true}",
          "the switches of a fabric of type ethernet cannot reduce; InfiniBand switches can");
  refused("p5.48xlarge", kSharp, "only InfiniBand has SHARP, but the adapters of p5.48xlarge use efa");
  refused("dgx-h100", "{base: leaf-spine, switch: spectrum-4, sharp: true}",
          "switch spectrum-4 cannot reduce; expected one of quantum, quantum-2, quantum-x800");
  CHECK(nodes_on(2, "dgx-h100", "{base: nonblocking, switch: quantum-2, sharp: true}").sharp);
  CHECK_FALSE(nodes_on(2, "dgx-h100", "nonblocking").sharp);
}

TEST_CASE("with PXN on rails no message of an all-to-all crosses the spines", "[collectives][nccl]") {
  const std::string rails = "{base: rail-optimized, switch_latency: 130 ns}";
  const ClusterSpec cluster = nodes_on(4, "dgx-h100", rails);
  NcclChoice off;
  off.pxn = false;
  for (const Operation operation : {Operation::all_to_all, Operation::send_recv, Operation::gather}) {
    CAPTURE(name_of(operation));
    const CollectiveRun relayed = modelled(cluster, operation, kLarge),
                        direct = modelled(cluster, operation, kLarge, off);
    CHECK(between_switches(relayed) == 0);
    CHECK(between_switches(direct) > 0);
    CHECK(relayed.time <= direct.time * (1 + 1e-9));
  }
  CHECK(between_switches(modelled(cluster, Operation::all_to_all, kLarge, {parse_nccl_version("2.11")})) > 0);
  // Each of 32 ranks on 4 nodes sends three quarters of its bytes by its adapter, with and without PXN. With PXN it
  // sends seven eighths of all bytes to others on its node; without PXN seven of 32 parts.
  const CollectiveRun relayed = modelled(cluster, Operation::all_to_all, kLarge);
  CHECK(relayed.links.at("node0/gpu0 -> node0/nvswitch") == near(kLarge * 7 / 8));
  double out = 0;
  for (const auto& [link, bytes] : relayed.links)
    if (link.starts_with("node0/hca0 -> leaf")) out += bytes;
  CHECK(out == near(kLarge * 3 / 4));
  CHECK(modelled(cluster, Operation::all_to_all, kLarge, off).links.at("node0/gpu0 -> node0/nvswitch") ==
        near(kLarge * 7 / 32));
}

TEST_CASE("rings of NCCL keep their rails, so that rails without a spine are no faster than rails with a slow one",
          "[collectives][nccl]") {
  const auto rails = [](const std::string& rest) {
    return nodes_on(8, "dgx-h100", "{base: rail-optimized, switch_latency: 130 ns, " + rest + "}");
  };
  const ClusterSpec full = rails("levels: [{down: 32}]"), slow = rails("levels: [{down: 32, oversubscription: 8}]"),
                    none = rails("joined: false");
  NcclChoice off;
  off.pxn = false;
  for (const Operation operation :
       {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter, Operation::broadcast}) {
    CAPTURE(name_of(operation));
    const CollectiveRun run = modelled(slow, operation, kLarge);
    CHECK(between_switches(run) == 0);
    CHECK(run.time == near(modelled(full, operation, kLarge).time));
    CHECK(run.time == near(modelled(none, operation, kLarge).time));
    CHECK(between_switches(modelled(slow, operation, kLarge, off)) > 0);
  }
}

TEST_CASE("PXN needs NVLink between all GPUs, and an adapter near them", "[collectives][nccl]") {
  const auto relays = [](const std::string& node, int ranks = 0) {
    const ClusterSpec cluster = nodes_on(2, node, "nonblocking");
    const int local = ranks > 0 ? ranks : cluster.node.gpus;
    return library_model(cluster).model->relays({2 * local, 2, local});
  };
  CHECK(relays("dgx-h100"));
  CHECK(relays("gh200-4x"));
  CHECK_FALSE(relays("dgx-h100", 1));
  CHECK_FALSE(relays("{base: dgx-h100, hca: {count: 1}}"));
  CHECK_FALSE(relays("{base: dgx-h100, hca: {gpudirect: false}}"));
  CHECK_FALSE(relays("dgx-1v"));
  CHECK_FALSE(relays("l40s-8x"));
  CHECK(std::string(cost_on(nodes_on(2, "dgx-h100", "nonblocking"), NcclOperation::alltoall, kLarge).protocol) ==
        "Simple, PXN");
}

TEST_CASE("the algorithm pxn has two phases, and one message per rail", "[collectives]") {
  const ClusterSpec cluster = nodes_on(3, "dgx-h100", "{base: rail-optimized, switch_latency: 130 ns}");
  const auto run = [&](const std::string& algorithm, Fidelity fidelity) {
    CollectiveRunOptions o = collective_options(Operation::all_to_all, algorithm, cluster.gpus(), Bytes{24e6});
    o.options.settings.fidelity = fidelity;
    o.options.settings.per_node = 8;
    return run_collective(cluster, o);
  };
  const CollectiveRun messages = run("pxn", Fidelity::messages);
  CHECK(messages.messages == 24 * (7 + 2));
  // Seven messages of three blocks over NVLink, then two of eight over the adapter, and some latencies.
  CHECK(messages.time >= 21e6 / 450e9 + 16e6 / 50e9);
  CHECK(messages.time <= 21e6 / 450e9 + 16e6 / 50e9 + 5e-6);
  CHECK(between_switches(messages) == 0);
  CHECK(between_switches(run("direct", Fidelity::messages)) > 0);
  CHECK(between_switches(run("pxn", Fidelity::flows)) == 0);
  CHECK(messages.total == near(24 * (24e6 * 7 / 8 + 24e6 * 2 / 3)));
}

TEST_CASE("a rack of NVL72 is one NVLink domain", "[collectives][nccl]") {
  const ClusterSpec rack = machine("{nodes: 1, node: gb200-nvl72}");
  const NcclCost inside = cost_on(rack, NcclOperation::all_reduce, kLarge);
  CHECK(std::string(inside.protocol) == "NVLS");
  CHECK(inside.limited_by == LinkKind::nvlink);
  const CollectiveRun run = modelled(rack, Operation::all_to_all, kLarge);
  for (const auto& [link, bytes] : run.links) {
    CAPTURE(link);
    CHECK(link.find("nvswitch") != std::string::npos);
  }
  const ClusterSpec racks = nodes_on(2, "gb200-nvl72", "nonblocking");
  CHECK(cost_on(racks, NcclOperation::alltoall, kLarge).limited_by == LinkKind::hca);
}

TEST_CASE("threads that ask one model at the same moment get the same costs", "[collectives][nccl]") {
  const ClusterSpec cluster =
      machine("{nodes: [{count: 8, node: l40s-8x}, {count: 8, node: h100-nvl-8x}], fabric: nonblocking}");
  // A hundred times, each thread is the first to ask for something of a new model.
  const auto costs = [](const CollectiveModel& cluster_model) {
    std::vector<double> all;
    for (int ranks = 2; ranks <= 8; ++ranks)
      for (const std::vector<int>& nodes : {std::vector<int>{0, 1}, {8, 9}, {0, 8}})
        all.push_back(
            cluster_model.model_for(nodes)->cost(Operation::all_reduce, Bytes{1e6}, {2 * ranks, 2, ranks}).rate.value);
    return all;
  };
  const std::vector<double> expected = costs(*library_model(cluster).model);
  for (int round = 0; round < 100; ++round) {
    const std::shared_ptr<const CollectiveModel> model = library_model(cluster).model;
    std::vector<std::future<std::vector<double>>> threads;
    for (int i = 0; i < 4; ++i) threads.push_back(std::async(std::launch::async, [&] { return costs(*model); }));
    for (auto& thread : threads) REQUIRE(thread.get() == expected);
  }
}

}  // namespace strategies_test_nccl_choices
