// Checks of fabrics with several paths between two ends, and of shared media: proofs, cuts, and counterexamples on the
// paths that messages take.
#include <map>

#include "tests/support.hpp"
#include "tests/topologies/bare_hosts.hpp"
#include "topologies/analysis/fabric_check.hpp"
#include "topologies/analysis/fabric_simulation.hpp"

namespace topologies_test_fabric_routing_check {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr double kHcaRate = 1e10;

/// Nodes with one GPU and one HCA of 10 GB/s each.
ClusterSpec routed_hosts(int count, const std::string& fabric) {
  ClusterSpec spec = bare_hosts(count);
  spec.node.hca_latency = {500000};
  read_fabric(spec, parse_document(fabric, "fabric"));
  return spec;
}

/// Checks a fabric, and runs every counterexample on the simulator over the paths really taken.
FabricCheck check_as_routed(const ClusterSpec& spec) {
  DeviceGraph graph = build_cluster(spec);
  FabricCheck check = check_cluster_fabric(graph, spec);
  std::vector<BlockedPattern> patterns;
  if (check.counterexample) patterns.push_back(*check.counterexample);
  if (check.routing && check.routing->counterexample) patterns.push_back(*check.routing->counterexample);
  for (const BlockedPattern& pattern : patterns) {
    std::map<DeviceId, int> sends, receives;
    for (const HcaPair& pair : pattern.pairs) {
      CHECK(++sends[pair.from] == 1);
      CHECK(++receives[pair.to] == 1);
    }
    CHECK(simulated_slowdown(graph, pattern.pairs) == near(pattern.slowdown));
  }
  return check;
}

double bisection_in_links(const std::string& fabric, int nodes) {
  const FabricCheck check = check_as_routed(routed_hosts(nodes, fabric + "\nswitch_latency: 100 ns\n"));
  REQUIRE(check.bisection);
  CHECK(check.bisection_exact);
  CHECK(check.oversubscription.empty());
  return check.bisection->value / kHcaRate;
}

std::string torus(const std::string& dims, bool wrap = true) {
  return "type: torus\ndims: " + dims + "\nwrap: " + (wrap ? "true" : "false");
}

}  // namespace

TEST_CASE("bisections of tori and meshes are those of the closed forms", "[topologies][check]") {
  // 2 N / k across an even longest dimension of a torus, N / k of a mesh (W. J. Dally & B. Towles, "Principles and
  // Practices of Interconnection Networks", 2004, 5.1); at most what the half sends.
  CHECK(bisection_in_links(torus("[4, 4]"), 16) == near(8));
  CHECK(bisection_in_links(torus("[4, 4, 4]"), 64) == near(32));
  CHECK(bisection_in_links(torus("[8, 4]"), 32) == near(8));
  CHECK(bisection_in_links(torus("[4, 8]"), 32) == near(8));
  CHECK(bisection_in_links(torus("[2, 2, 2]"), 8) == near(4));  // one wire in a dimension of two: a hypercube
  CHECK(bisection_in_links(torus("[8, 8, 8]"), 512) == near(128));
  CHECK(bisection_in_links(torus("[4, 4]", false), 16) == near(4));
  CHECK(bisection_in_links(torus("[4, 4, 4]", false), 64) == near(16));
  for (const int nodes : {6, 7, 16, 64}) CHECK(bisection_in_links("type: ring", nodes) == near(2));
  CHECK(bisection_in_links("type: ring\nwrap: false", 16) == near(1));
  // 2 (k + 1) for two odd dimensions (J. Arjona Aroca & A. Fernandez Anta, IEEE TPDS 25, 2014), found by an exhaustive
  // test.
  CHECK(bisection_in_links(torus("[3, 3]"), 9) == near(4));  // no more than four of nine can send
  CHECK(bisection_in_links(torus("[3, 3]\nlink_rate: 1 GB/s"), 9) == near(0.8));
}

TEST_CASE("a torus of up to four per dimension is nonblocking with ideal splitting, but blocks with dimension order",
          "[topologies][check]") {
  const FabricCheck small = check_as_routed(routed_hosts(16, torus("[4, 4]") + "\nswitch_latency: 100 ns"));
  CHECK(small.nonblocking == Nonblocking::yes);
  REQUIRE(small.routing);
  CHECK(small.routing->rule == "dimension order");
  CHECK(small.routing->nonblocking == Nonblocking::no);
  REQUIRE(small.routing->counterexample);
  CHECK(small.routing->counterexample->slowdown == near(2));
  CHECK(small.diameter_hops == 6);
  CHECK(small.diameter_latency->count == 2 * (500000 + 50000) + 4 * 100000);
  const FabricCheck large = check_as_routed(routed_hosts(32, torus("[8, 4]") + "\nswitch_latency: 100 ns"));
  CHECK(large.nonblocking == Nonblocking::no);
  CHECK(large.reason.find("and 15 others carry 80.0 GB/s, but they can send 160 GB/s") != std::string::npos);
  // Paths from 0, 7 and 6 cross 0 -> 1 (opposite ends go up only from even positions).
  const FabricCheck ring = check_as_routed(routed_hosts(8, "type: ring\nswitch_latency: 100 ns"));
  CHECK(ring.nonblocking == Nonblocking::no);
  CHECK(ring.routing->counterexample->slowdown == near(3));
  const FabricCheck fast = check_as_routed(routed_hosts(8, "type: ring\nlink_rate: 40 GB/s\nswitch_latency: 100 ns"));
  CHECK(fast.nonblocking == Nonblocking::yes);
  CHECK(fast.routing->nonblocking == Nonblocking::yes);
  CHECK_FALSE(fast.routing->counterexample);
}

TEST_CASE("a hashed folded Clos carries everything if traffic is split, and blocks as routed", "[topologies][check]") {
  const std::string clos = "type: folded-clos\nrouting: ecmp\nswitch_latency: 100 ns\nlevels: ";
  const FabricCheck full = check_as_routed(routed_hosts(16, clos + "[{down: 4}]"));
  CHECK(full.nonblocking == Nonblocking::yes);
  REQUIRE(full.routing);
  CHECK(full.routing->rule == "hashed ECMP, seed 1");
  CHECK(full.routing->nonblocking == Nonblocking::no);
  CHECK(full.routing->counterexample->slowdown > 1.5);
  CHECK(full.bisection->value == near(8 * kHcaRate));
  CHECK(full.bisection_exact);
  REQUIRE(full.oversubscription.size() == 1);
  CHECK(full.oversubscription[0].name == "leaf");
  CHECK(full.oversubscription[0].attached == near(1));
  const FabricCheck half = check_as_routed(routed_hosts(32, clos + "[{down: 4, oversubscription: 2}, {down: 4}]"));
  CHECK(half.nonblocking == Nonblocking::no);
  CHECK(half.bisection->value == near(8 * kHcaRate));
  REQUIRE(half.oversubscription.size() == 2);
  CHECK(half.oversubscription[0].attached == near(2));
  CHECK(half.oversubscription[0].groups == 8);
  CHECK(half.oversubscription[1].name == "pod");
  CHECK(half.oversubscription[1].attached == near(1));
  CHECK(half.oversubscription[1].of_hcas == near(2));
  ClusterSpec damaged = routed_hosts(16, clos + "[{down: 4}]");
  damaged.taken_out.push_back({"spine1", damaged.place});
  const FabricCheck three = check_as_routed(damaged);
  CHECK(three.nonblocking == Nonblocking::no);
  CHECK(three.oversubscription[0].attached == near(4.0 / 3));
  damaged.taken_out.push_back({"leaf0", damaged.place});
  const FabricCheck cut = check_as_routed(damaged);
  CHECK(cut.nonblocking == Nonblocking::no);
  CHECK(cut.reason.find("by switches node0/hca0 cannot reach all other HCAs") != std::string::npos);
}

TEST_CASE("removing switches from a sprayed Clos lowers the rate that its groups can send up", "[topologies][check]") {
  ClusterSpec spec = routed_hosts(16, "type: folded-clos\nswitch_latency: 100 ns\nlevels: [{down: 4}]");
  spec.taken_out.push_back({"spine1", spec.place});
  FabricCheck check = check_as_routed(spec);
  CHECK(check.nonblocking == Nonblocking::no);
  CHECK(check.counterexample->slowdown == near(4.0 / 3));
  CHECK(check.bisection->value == near(6 * kHcaRate));
  spec.taken_out.back().name = "leaf0 - spine1";  // the half with leaf0 has seven uplinks
  check = check_as_routed(spec);
  CHECK(check.counterexample->link == "leaf0 -> spines");
  CHECK(check.bisection->value == near(7 * kHcaRate));
  spec.taken_out.back().name = "spine7";
  CHECK_THROWS_AS(build_cluster(spec), UserError);
}

TEST_CASE("a dragonfly's minimal routing is slowed down by its one link between two groups", "[topologies][check]") {
  for (const char* routing : {"minimal", "valiant"}) {
    const FabricCheck check = check_as_routed(routed_hosts(
        72, std::string("type: dragonfly\nswitches_a_group: 4\nswitch_latency: 100 ns\nrouting: ") + routing));
    CHECK(check.nonblocking == Nonblocking::no);  // four groups of nine share 20 links out, for 32 HCAs
    CHECK(check.oversubscription.empty());
    REQUIRE(check.routing);
    CHECK(check.routing->rule.find(routing[0] == 'm' ? "minimal" : "Valiant") == 0);
    if (routing[0] == 'm') {
      CHECK(check.routing->counterexample->slowdown == near(8));  // all HCAs of a group over one link
      CHECK(check.diameter_hops == 5);
    }
  }
}

TEST_CASE("a hub and half-duplex wires block, and say why", "[topologies][check]") {
  const FabricCheck hub = check_as_routed(routed_hosts(8, "type: ethernet\nhub: true\nswitch_latency: 100 ns"));
  CHECK(hub.nonblocking == Nonblocking::no);
  CHECK(hub.reason.find("one sender at a time") != std::string::npos);
  CHECK_FALSE(hub.routing);
  REQUIRE(hub.counterexample);
  CHECK(hub.counterexample->link == "hub medium");
  CHECK(hub.counterexample->slowdown == near(8));
  CHECK(hub.bisection->value == near(kHcaRate));
  CHECK(check_as_routed(routed_hosts(8, "type: ethernet\nswitch_latency: 100 ns")).nonblocking == Nonblocking::yes);
  ClusterSpec spec = routed_hosts(4, "type: ethernet\nswitch_latency: 100 ns");
  spec.node.network.half_duplex = true;
  const FabricCheck half = check_as_routed(spec);
  CHECK(half.nonblocking == Nonblocking::no);
  CHECK(half.reason.find("half duplex") != std::string::npos);
  CHECK(half.counterexample->slowdown == near(2));
  CHECK(half.bisection->value == near(2 * kHcaRate));
  ClusterSpec ring = routed_hosts(4, "type: ring\nlink_rate: 100 GB/s\nswitch_latency: 100 ns");
  ring.node.network.half_duplex = true;
  CHECK(check_as_routed(ring).reason.find("half duplex") != std::string::npos);
}

TEST_CASE("the ends of a fabric of chips are the chips", "[topologies][check]") {
  ClusterSpec spec =
      routed_hosts(16, "type: torus\njoins: chips\ndims: [4, 4, 4]\nlink_rate: 50 GB/s\nswitch_latency: 100 ns");
  spec.node.gpus = 4;
  spec.node.hcas = 0;
  const FabricCheck check = check_as_routed(spec);
  CHECK(check.ends == "chip");
  CHECK(check.nonblocking == Nonblocking::no);  // a chip sends by six links at once
  CHECK(check.bisection->value == near(32 * 50e9));
  CHECK(check.bisection_exact);
  CHECK(check.diameter_hops == 2 + 6);
}

TEST_CASE("a fabric too large for all pairs is judged by the worst of some permutations", "[topologies][check]") {
  const FabricCheck check = check_as_routed(routed_hosts(2048, torus("[16, 16, 8]") + "\nswitch_latency: 100 ns"));
  CHECK(check.nonblocking == Nonblocking::no);
  CHECK(check.routing->nonblocking == Nonblocking::no);
  CHECK(check.routing->counterexample->slowdown > 4);
  CHECK_FALSE(check.diameter_hops);
  CHECK_FALSE(check.bisection_exact);
  CHECK(check.bisection->value == near(2 * 2048 / 16 * kHcaRate));
}

}  // namespace topologies_test_fabric_routing_check
