// The networks that `trainyard size --network` compares: their parts, and the fabrics by which they are simulated.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "models/energy/prices.hpp"
#include "tests/places.hpp"
#include "topologies/analysis/clos_design.hpp"
#include "topologies/analysis/network_design.hpp"
#include "topologies/cluster.hpp"

namespace topologies_test_network_design {

using namespace trainyard;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

NetworkDesign design_of(const std::string& kind, int nodes, int adapters = 8, int ports = 64) {
  return design_network(read_network_kind(kind, "--network"), {nodes, adapters, ports});
}

}  // namespace

TEST_CASE("the parts of a network are those that a planner counts by hand", "[topologies][network]") {
  struct Expected {
    const char* kind;
    std::int64_t leaves, switches, links;
    const char* fabric;
  };
  // 1,024 ports of 128 nodes on switches of 64 ports.
  for (const Expected& e : std::vector<Expected>{
           {"nonblocking", 32, 32 + 16, 32 * 32, "{base: leaf-spine, levels: [{down: 32}]}"},
           {"2:1", 26, 26 + 10, 26 * 20, "{base: leaf-spine, levels: [{down: 40, oversubscription: 2}]}"},
           {"4:1", 22, 22 + 6, 22 * 12, "{base: leaf-spine, levels: [{down: 48, oversubscription: 4}]}"},
           {"rail-optimized", 8 * 4, 32 + 16, 32 * 32, "{base: rail-optimized, levels: [{down: 32}]}"},
           {"rail-only", 8 * 4, 8 * (4 + 2), 8 * 4 * 32, "{base: rail-only, levels: [{down: 32}]}"}}) {
    CAPTURE(e.kind);
    const NetworkDesign design = design_of(e.kind, 128);
    CHECK(design.leaves == e.leaves);
    CHECK(design.switches == e.switches);
    CHECK(design.links == e.links);
    CHECK(design.cables() == 1024 + e.links);
    CHECK(design.ports() == 1024 + 2 * e.links);
    CHECK(design.fabric({}) == e.fabric);
  }
  // Rails of 64 nodes fill one switch each, and need no other.
  CHECK(design_of("rail-only", 64).switches == 8);
  CHECK(design_of("rail-only", 64).links == 0);
  CHECK(design_of("nonblocking", 64).switches == 16 + 8);
  // One switch joins all.
  CHECK(design_of("2:1", 8).switches == 1);
  CHECK(design_of("2:1", 8).fabric({"switch: quantum-2"}) == "{base: nonblocking, switch: quantum-2}");
}

TEST_CASE("stated leaves and spines are joined by as many cables as both take", "[topologies][network]") {
  struct Expected {
    const char* kind;
    std::int64_t uplinks;
    const char* fabric;
  };
  // 512 ports of 64 nodes on switches of 64 ports.
  for (const Expected& e : std::vector<Expected>{
           {"16 leaves and 8 spines", 32, "{base: leaf-spine, levels: [{down: 32}]}"},
           {"16 leaves and 4 spines", 16, "{base: leaf-spine, levels: [{down: 32, oversubscription: 2}]}"},
           {"16 leaves and 1 spine", 4, "{base: leaf-spine, levels: [{down: 32, oversubscription: 8}]}"},
           {"10 leaves and 1 spine", 6,
            "{base: leaf-spine, levels: [{down: 56, oversubscription: 9.333333333333334}]}"},
           {"16 leaves and 4 spines on rails", 16,
            "{base: rail-optimized, levels: [{down: 32, oversubscription: 2}]}"}}) {
    CAPTURE(e.kind);
    const NetworkDesign design = design_of(e.kind, 64);
    CHECK(design.uplinks == e.uplinks);
    CHECK(design.fabric({}) == e.fabric);
  }
  CHECK(design_of("2:1 on rails", 64).spines() == 4);
  // Each error says the truth about the nearest number, and about fewer leaves.
  CHECK_THROWS_WITH(design_of("16 leaves and 20 spines", 64),
                    Equals("16 leaves and 20 spines: 20 spines are more than are needed; nearest: 8"));
  CHECK_NOTHROW(design_of("16 leaves and 8 spines", 64));
  CHECK_THROWS_WITH(design_of("60 leaves and 1 spine", 64), Contains("one has no adapter of the 64 nodes"));
  CHECK_THROWS_WITH(design_of("8 leaves and 2 spines", 64), Contains("do not join"));  // no port is left for spines
  CHECK_THROWS_WITH(design_of("12 leaves and 2 spines on rails", 64), Contains("on rails"));  // 8 rails
  CHECK_THROWS_WITH(design_of("2 leaves and 1 spine on rails", 64, 1), Contains("nodes of two adapters or more"));
  for (const char* wrong :
       {"16 leaves and 0 spines", "1 leaves and 1 spine", "4 spines", "rail-only on rails", "2:1 on rail"})
    CHECK_THROWS_WITH(read_network_kind(wrong, "--network"), Contains("--network: unknown network"));
}

TEST_CASE("each network of a list of efficient ones has more switches and less oversubscription than those before",
          "[topologies][network]") {
  for (const bool rails : {false, true})
    for (const int ports : {16, 36, 64})
      for (const int nodes : {9, 20, 40, 128}) {
        const std::vector<std::string> kinds = efficient_networks({nodes, 8, ports}, rails);
        CAPTURE(rails, ports, nodes, kinds);
        std::int64_t switches = 0;
        double ratio = std::numeric_limits<double>::infinity();
        for (const std::string& kind : kinds) {
          const NetworkDesign design = design_of(kind, nodes, 8, ports);
          CHECK(kind.starts_with(fmt::format("{} leaves and {} spine", design.leaves, design.spines())));
          CHECK(design.switches > switches);
          CHECK(design.oversubscription() < ratio);
          CHECK(design.hosts_of_leaf + design.uplinks <= ports);
          CHECK(design.links <= design.spines() * ports);
          switches = design.switches;
          ratio = design.oversubscription();
        }
        if (kinds.empty()) continue;
        CHECK((ratio == 1 || 8LL * nodes > ports * ports / 2));
        // No oversubscription of the usual kinds takes fewer switches.
        for (const char* usual : {"nonblocking", "2:1", "3:1", "4:1"}) {
          NetworkDesign design;
          try {
            design = design_of(usual + std::string(rails ? " on rails" : ""), nodes, 8, ports);
          } catch (const UserError&) {
            continue;
          }
          if (design.links == 0 || design.pods > 0) continue;
          CHECK(std::ranges::any_of(kinds, [&](const std::string& kind) {
            const NetworkDesign other = design_of(kind, nodes, 8, ports);
            return other.switches <= design.switches && other.oversubscription() <= design.oversubscription() + 1e-9;
          }));
        }
      }
}

TEST_CASE("a nonblocking network of full leaves is as small as the designs of topo and of a purchase",
          "[topologies][network]") {
  for (const int nodes : {16, 32, 64, 128, 256, 512, 8192}) {
    CAPTURE(nodes);
    const NetworkDesign design = design_of("nonblocking", nodes);
    const SwitchCount bought = full_bisection_network(8 * nodes, 64, {});
    CHECK(design.switches == bought.switches);
    CHECK(design.cables() == bought.cables);
    if (nodes <= 256) CHECK(design.switches == design_clos({8LL * nodes, 64}).switches);
  }
}

TEST_CASE("no switch of a network has more ports than it may, and the levels carry what the leaves send",
          "[topologies][network]") {
  for (const std::string& kind : network_kinds())
    for (const int adapters : {1, 2, 4, 8, 9})
      for (const int nodes : {2, 3, 7, 40, 65, 130, 300, 1000})
        for (const int ports : {8, 36, 64}) {
          CAPTURE(kind, adapters, nodes, ports);
          NetworkDesign design;
          try {
            design = design_of(kind, nodes, adapters, ports);
          } catch (const UserError&) {
            continue;
          }
          CHECK(design.hosts == static_cast<std::int64_t>(nodes) * adapters);
          CHECK(design.ports() <= design.switches * ports);
          // Each leaf has hosts, no more than it may, and every cable has a length.
          const CabledNetwork network = cabled_network(design);
          std::vector<std::int64_t> hosts(static_cast<std::size_t>(design.leaves));
          for (std::int64_t host = 0; host < network.hosts; ++host)
            ++hosts.at(static_cast<std::size_t>(network.leaf_of_host(host)));
          CHECK(*std::ranges::max_element(hosts) == design.hosts_of_leaf);
          FloorPlan floor;
          floor.hosts_of_rack = 4 * adapters;
          const CablePlan plan = plan_cables(network, floor);
          CHECK(plan.count(false) + plan.count(true) == design.cables());
          // The fabric can be read and fits a switch of that many ports.
          ClusterSpec spec;
          spec.place = test::nowhere();
          const Catalog catalog;
          read_fabric(spec, catalog.resolve("fabric", parse_document(design.fabric({}), "x.yaml")), catalog);
          for (const FabricLevel& level : spec.fabric->levels()) {
            if (&level != spec.fabric->levels().data()) continue;
            const auto up = divide_links(level.down, level.oversubscription);
            const bool has_uplinks = kind != "rail-only" || design.links > 0;
            CHECK(level.down + (has_uplinks ? up : 0) <= ports);
            CHECK(design.leaves * level.down >= design.hosts);
            if (kind == "2:1") CHECK(level.oversubscription <= 2);
          }
        }
}

TEST_CASE("networks that cannot be built, and unknown names, are refused with the reason", "[topologies][network]") {
  CHECK_THROWS_WITH(design_of("nonblocking", 1000, 8, 8), Contains("three levels of switches of 8 ports do not join"));
  CHECK_THROWS_WITH(design_of("rail-only", 4, 1),
                    Contains("rail-only: nodes of two adapters or more expected, not of 1"));
  CHECK_THROWS_WITH(read_network_kind("rails-only", "--network"),
                    Contains("--network: unknown network \"rails-only\"; did you mean \"rail-only\"?"));
  CHECK_THROWS_WITH(read_network_kind("0:1", "--network"), Contains("unknown network \"0:1\""));
  CHECK(read_network_kind("3:1", "").oversubscription == 3);
}

}  // namespace topologies_test_network_design
