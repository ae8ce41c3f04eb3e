#include <fmt/format.h>

#include "scenarios/src/collectives/switch_actors.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/transfers.hpp"
#include "tests/strategies/exact_values.hpp"
#include "tests/user_errors.hpp"

namespace strategies_test_switch_collectives {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr double kSize = 16e6;

CollectiveRunOptions options(const std::string& algorithm, Operation operation, int ranks, int pieces) {
  CollectiveRunOptions o = collective_options(operation, algorithm, ranks, Bytes{kSize});
  o.options.settings.chunk = Bytes{kSize / pieces};
  return o;
}

/// Returns hosts with an adapter of 1 GB/s each. A message through their only switch has a latency of 2 us.
ClusterSpec hosts(int n) {
  ClusterSpec spec = hosts_of(n, "rate: 1 GB/s", "{type: nonblocking, switch_latency: 2 us}");
  spec.sharp = true;
  return spec;
}

/// Returns hosts on leaves of `down` ports, with the same bandwidth up as down, and 1 us per switch.
ClusterSpec clos(int n, int down) {
  ClusterSpec spec = hosts_of(n, "rate: 1 GB/s");
  spec.fabric = make_fabric("folded-clos", fmt::format("levels: [{{down: {}}}]", down));
  spec.switch_latency = {1000000};
  spec.sharp = true;
  return spec;
}

std::string refusal(const ClusterSpec& cluster, const CollectiveRunOptions& o) {
  return user_error([&] { run_collective(cluster, o); });
}

}  // namespace

TEST_CASE("collectives with sums in the switch give exact values", "[collectives]") {
  for (int n = 1; n <= 17; ++n) {
    for (const Operation operation : kBlockOperations)
      for (const double chunk : {1e6, 60.0}) {
        CollectiveRunOptions o = options("nvls", operation, n, 1);
        o.options.settings.chunk = Bytes{chunk};
        check_values(star_cluster(n, kRate), o);
        check_values(star_cluster(n, kRate, {1000000}), o);
      }
    CollectiveRunOptions o = options("sharp", Operation::all_reduce, n, 1);
    o.options.settings.chunk = Bytes{60};
    check_values(hosts(n), o);
    check_values(clos(n, 4), o);
  }
}

TEST_CASE("with SHARP a rank sends and receives the buffer once, plus a piece to fill the pipe", "[collectives]") {
  for (const int n : {2, 3, 8, 17})
    for (const int pieces : {1, 10, 500}) {
      CAPTURE(n, pieces);
      const CollectiveRun run = run_collective(hosts(n), options("sharp", Operation::all_reduce, n, pieces));
      CHECK(run.time == near(2e-6 + kSize / 1e9 + kSize / pieces / 1e9));
      for (int host = 0; host < n; ++host) {
        CHECK(run.links.at(fmt::format("node{}/hca0 -> fabric", host)) == near(kSize));
        CHECK(run.links.at(fmt::format("fabric -> node{}/hca0", host)) == near(kSize));
      }
    }
}

TEST_CASE("with SHARP on a Clos a leaf sends one sum up, not the buffer of each host", "[collectives]") {
  const int pieces = 100;
  const CollectiveRun run = run_collective(clos(12, 4), options("sharp", Operation::all_reduce, 12, pieces));
  double up = 0, down = 0;
  int uplinks = 0;
  for (const auto& [link, bytes] : run.links) {
    if (link.find("node") != std::string::npos) continue;
    ++uplinks;
    (link.starts_with("leaf") ? up : down) += bytes;
  }
  CHECK(uplinks == 6);
  CHECK(up == near(3 * kSize));
  CHECK(down == near(3 * kSize));
  // The path has two links of half a microsecond and two of one. Two more pieces take uplinks of four times the rate.
  const double piece = kSize / pieces / 1e9;
  CHECK(run.time == near(kSize / 1e9 + piece + 2 * piece / 4 + 2 * (0.5e-6 + 1e-6)));
  // Hosts of one leaf do not use the top switches.
  const CollectiveRun one_leaf = run_collective(clos(12, 4), options("sharp", Operation::all_reduce, 4, pieces));
  CHECK(one_leaf.time == near(kSize / 1e9 + piece + 2 * 0.5e-6));
}

TEST_CASE("with CollNet each GPU sends a part of its node's sum by its own adapter", "[collectives]") {
  const int nodes = 3, gpus = 8, ranks = nodes * gpus;
  for (const char* fabric : {"nonblocking", "{base: rail-optimized, levels: [{down: 2}]}", "{base: leaf-spine}"}) {
    CAPTURE(fabric);
    ClusterSpec cluster = read_cluster(
        parse_document(fmt::format("{{nodes: {}, node: dgx-h100, fabric: {}}}", nodes, fabric), "machine.yaml"),
        Catalog());
    cluster.sharp = true;
    CollectiveRunOptions o = options("collnet-direct", Operation::all_reduce, ranks, 320);
    o.options.settings.per_node = gpus;
    const CollectiveRun run = run_collective(cluster, o);
    for (int hca = 0; hca < gpus; ++hca) {
      double out = 0;
      for (const auto& [link, bytes] : run.links)
        if (link.starts_with(fmt::format("node1/hca{} -> ", hca)) && link.find("> node1") == std::string::npos)
          out += bytes;
      CHECK(out == near(kSize / gpus));
    }
    const double inside = 2 * (gpus - 1.0) / gpus * kSize / 450e9, outside = kSize / gpus / 50e9;
    CHECK(run.time >= inside + outside);
    CHECK(run.time <= 1.3 * (inside + outside) + 15e-6);
    o.options.settings.chunk = Bytes{60};
    check_values(cluster, o);
  }
}

TEST_CASE("with NVLS every GPU sends and receives (1 + 1/n) times the size", "[collectives]") {
  const double hop = 1e-6;
  for (const auto& [n, pieces] : {std::pair{2, 20}, {3, 20}, {8, 20}, {8, 320}, {17, 20}}) {  // pieces per share
    CAPTURE(n, pieces);
    const ClusterSpec cluster = star_cluster(n, kRate, {2000000});
    const auto run = [&, n = n, pieces = pieces](Operation operation) {
      const CollectiveRun result = run_collective(cluster, options("nvls", operation, n, n * pieces));
      const bool up = operation != Operation::all_gather, down = operation != Operation::reduce_scatter;
      for (int gpu = 0; gpu < n; ++gpu) {
        const double out = (up ? kSize : 0) + (down ? kSize / n : 0), in = (up ? kSize / n : 0) + (down ? kSize : 0);
        CHECK(result.links.at(fmt::format("node0/gpu{} -> node0/nvswitch", gpu)) == near(out));
        CHECK(result.links.at(fmt::format("node0/nvswitch -> node0/gpu{}", gpu)) == near(in));
      }
      return result.time;
    };
    const double piece = kSize / n / pieces / 1e9;
    CHECK(run(Operation::reduce_scatter) == near(2 * hop + kSize / 1e9 + piece));
    CHECK(run(Operation::all_gather) == near(2 * hop + kSize / 1e9 + piece));
    // Results that a GPU stores interrupt its sends for the sums, and the sums wait for the last GPU: this costs a
    // few rounds of pieces, however many pieces there are.
    const double least = 4 * hop + kSize * (1 + 1.0 / n) / 1e9 + 2 * piece, all = run(Operation::all_reduce);
    CHECK(all >= least * (1 - 1e-9));
    CHECK(all <= least + 5 * n * piece);
  }
}

TEST_CASE("in-switch reduction is refused if no switch connects the ranks", "[collectives]") {
  CHECK(refusal(hosts(4), options("nvls", Operation::all_reduce, 4, 1)) ==
        "all-reduce: all-reduce by nvls: no NVSwitch that adds (of Hopper and later) joins all the ranks");
  CHECK(refusal(star_cluster(4, kRate), options("sharp", Operation::all_reduce, 4, 1)) ==
        "all-reduce: all-reduce by sharp: no switches that add up join all the ranks (those of a fabric with sharp: "
        "true, InfiniBand, do); expected another algorithm, such as ring");
  ClusterSpec plain = hosts(4);
  plain.sharp = false;
  CHECK_FALSE(refusal(plain, options("sharp", Operation::all_reduce, 4, 1)).empty());
  const Catalog catalog;
  for (const std::string& name : catalog.names("node")) {  // all adapters with SHARP are InfiniBand adapters
    const NodeType node = read_node(catalog.resolve("node", Node::scalar_node(name)), catalog);
    if (node.hcas == 0) continue;
    const std::string& network = node.network.nccl_network;
    CAPTURE(name, network);
    const std::string refused = user_error([&] {
      read_cluster(
          parse_document(fmt::format("{{nodes: 2, node: {}, fabric: {{base: nonblocking, sharp: true}}}}", name),
                         "machine.yaml"),
          catalog);
    });
    CHECK(refused.empty() == node.network.sharp);
    if (!refused.empty()) CHECK_THAT(refused, Catch::Contains("only InfiniBand has SHARP"));
    if (node.network.tcp || !network.empty()) CHECK_FALSE(node.network.sharp);
  }
  for (const char* name : {"p3.16xlarge", "t4-server", "gaudi-2-8x", "p4d.24xlarge", "frontier"})
    CHECK_FALSE(read_node(catalog.resolve("node", Node::scalar_node(name)), catalog).network.sharp);
  CHECK(refusal(hosts(4), [] {
          CollectiveRunOptions o = options("collnet-direct", Operation::all_reduce, 4, 1);
          o.options.settings.per_node = 1;
          return o;
        }()) == "all-reduce: all-reduce by collnet-direct: for one rank on each node, take sharp");
  CollectiveRunOptions flows = options("nvls", Operation::all_reduce, 4, 1);
  flows.options.settings.fidelity = Fidelity::flows;
  CHECK_FALSE(refusal(star_cluster(4, kRate), flows).empty());
}

TEST_CASE("the tree of switches is the flattest possible", "[collectives]") {
  const ClusterSpec spec = clos(12, 4);
  SoftwareStack stack;
  const ClusterMachine machine(spec, stack);
  const SwitchActors all = switch_actors(machine, SwitchKind::network, {0, 1, 5, 11});
  CHECK(all.tree.parent == std::vector<int>{-1, 0, 0, 0});
  CHECK(all.tree.of_member == std::vector<int>{1, 1, 2, 3});
  const SwitchActors one_leaf = switch_actors(machine, SwitchKind::network, {4, 5, 7});
  CHECK(one_leaf.tree.parent == std::vector<int>{-1});
  CHECK(one_leaf.tree.of_member == std::vector<int>{0, 0, 0});
}

}  // namespace strategies_test_switch_collectives
