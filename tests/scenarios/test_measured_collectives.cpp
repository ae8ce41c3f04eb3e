// Tables of nccl-tests that others ran: they are read, checked for impossible rows and slow systems, and fitted.
#include <catch2/catch.hpp>

#include "scenarios/src/studies/measured/measured_collectives.hpp"

#include <fstream>

#include "tests/temporary_folder.hpp"

namespace scenarios_test_measured_collectives {

using namespace trainyard;
using namespace trainyard::test;

namespace {

const std::string kHeader = "system,class,gpus,machine,algorithm,version,source,note\n";
const std::string kTwoH100 = "pair,infiniband,16,\"{nodes: 2, node: dgx-h100, fabric: nonblocking}\",,,somebody,\n";

struct Tables {
  test::TemporaryFolder folder;
  MeasuredSystems read(const std::string& systems, const std::string& sweeps) const {
    std::ofstream(folder.path() / "systems.csv") << kHeader << systems;
    std::ofstream(folder.path() / "sweeps.csv") << "system,op,size_bytes,time_us\n" << sweeps;
    return measured_systems(folder.path() / "systems.csv", folder.path() / "sweeps.csv");
  }
};

}  // namespace

TEST_CASE("impossible rows are named by their line and left out", "[nccl][measured]") {
  const MeasuredSystems measured =
      Tables().read(kTwoH100,
                    "pair,all_reduce,1048576,90\npair,all_gather,1073741824,2000\npair,all_reduce,8388608,1270\n"
                    "pair,all_reduce,16777216,380\n");
  REQUIRE(measured.impossible.size() == 2);
  CHECK(measured.impossible[0] == "sweeps.csv:3: pair, all_gather of 1073741824 B: 503.3 GB/s over wires of 400 GB/s");
  CHECK(measured.impossible[1] ==
        "sweeps.csv:4: pair, all_reduce of 8388608 B: 1270 us, but 380 us of 16777216 B (line 5)");
  CHECK(measured.systems.front().rows.size() == 2);
}

TEST_CASE("a row is a stall if any larger size took less than half of its time", "[nccl][measured]") {
  const MeasuredSystems measured = Tables().read(
      kTwoH100,
      "pair,all_reduce,1024,107\npair,all_reduce,2048,60\npair,all_reduce,4096,50\npair,all_gather,8192,20\n");
  REQUIRE(measured.impossible.size() == 1);
  CHECK(measured.impossible[0] == "sweeps.csv:2: pair, all_reduce of 1024 B: 107 us, but 50 us of 4096 B (line 4)");
  const MeasuredSystems falling_sizes =
      Tables().read(kTwoH100, "pair,all_reduce,4096,50\npair,all_reduce,2048,60\npair,all_reduce,1024,107\n");
  REQUIRE(falling_sizes.impossible.size() == 1);
  CHECK(falling_sizes.impossible[0] ==
        "sweeps.csv:4: pair, all_reduce of 1024 B: 107 us, but 50 us of 4096 B (line 2)");
}

TEST_CASE("a system that reaches less than half of its wires' rate is neither fitted nor judged", "[nccl][measured]") {
  const Tables tables;
  const MeasuredSystem slow = tables.read(kTwoH100, "pair,all_gather,1073741824,9000\n").systems.front();
  CHECK(slow.peak_share == Approx(0.28).epsilon(0.01));
  CHECK_FALSE(slow.healthy());
  CHECK(network_sweeps({slow}, "infiniband").empty());
  const MeasuredSystem good = tables.read(kTwoH100, "pair,all_gather,1073741824,3000\n").systems.front();
  CHECK(good.healthy());
  CHECK(network_sweeps({good}, "infiniband").size() == 1);
  CHECK_FALSE(tables.read("pair,infiniband,16,,,,somebody,\n", "").systems.front().healthy());  // no machine stated
}

TEST_CASE("faults of tables of systems are named with their place", "[nccl][measured]") {
  const Tables tables;
  CHECK_THROWS_WITH(tables.read(kTwoH100, "pairr,all_reduce,8,30\n"),
                    Catch::EndsWith("sweeps.csv:2:1: unknown system \"pairr\"; did you mean \"pair\"?"));
  CHECK_THROWS_WITH(tables.read(kTwoH100, "pair,all_reduce,8,-3\n"), Catch::Contains("sweeps.csv:2:"));
  CHECK_THROWS_WITH(tables.read("pair,infiniband,15,\"{nodes: 2, node: dgx-h100, fabric: nonblocking}\",,,x,\n", ""),
                    Catch::Contains("15 GPUs on a machine of 2 nodes and 16 GPUs"));
}

TEST_CASE("a system's calls are launched as its table says, or else as nccl-tests usually launches them",
          "[nccl][measured]") {
  test::TemporaryFolder folder;
  const auto read = [&](const std::string& launch, const std::string& machine) {
    std::ofstream(folder.path() / "systems.csv") << "system,class,gpus,machine,algorithm,launch,version,source,note\n"
                                                 << "box,nvlink,8,\"" + machine + "\",," + launch + ",,somebody,\n";
    std::ofstream(folder.path() / "sweeps.csv") << "system,op,size_bytes,time_us\nbox,all_reduce,8,30\n";
    return measured_systems(folder.path() / "systems.csv", folder.path() / "sweeps.csv").systems.front();
  };
  const std::string one_node = "{nodes: 1, node: dgx-1v}";
  const MeasuredSystem thread = read("", one_node), graph = read("graph", one_node);
  CHECK(thread.launch == NcclLaunch::by_thread);
  CHECK(read("process", one_node).launch == NcclLaunch::by_process);
  CHECK(graph.launch == NcclLaunch::ahead);
  CHECK(thread.rows.front().predicted.value == Approx(8 * 4.6e-6));
  CHECK(graph.rows.front().predicted < thread.rows.front().predicted);
  CHECK_THROWS_WITH(read("mpirun", one_node),
                    Catch::Contains("systems.csv:2:") && Catch::Contains("launch: unknown way to launch \"mpirun\""));
}

TEST_CASE("the catalog's networks of NCCL are those that a fit of the tables gives", "[nccl][measured]") {
  const MeasuredSystems measured = measured_systems();
  for (const char* name : {"slingshot", "efa-b200"}) {
    INFO(name);
    const NcclNetwork fitted = fit_nccl_network(name, network_sweeps(measured.systems, name)).network;
    const NcclNetwork shipped = read_nccl_network(Catalog().resolve("nccl-network", Node::scalar_node(name)));
    for (std::size_t p = 0; p < fitted.hop.size(); ++p)
      CHECK(fitted.hop[p].value == Approx(shipped.hop[p].value).epsilon(1e-3));
    CHECK(fitted.share_tree == Approx(shipped.share_tree).epsilon(1e-3));
    CHECK(fitted.share_ring == Approx(shipped.share_ring).epsilon(1e-3));
  }
}

}  // namespace scenarios_test_measured_collectives
