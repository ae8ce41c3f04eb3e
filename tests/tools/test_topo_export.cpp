// `trainyard topo export`: SimGrid reads the platform, and its transfers take as long as the simulator's.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <simgrid/s4u.hpp>

#include "scenarios/src/reading/scenario.hpp"
#include "sim/json_text.hpp"
#include "tests/child.hpp"
#include "tests/support.hpp"
#include "tests/tools/topo_shell.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace tools_test_topo_export {

using namespace trainyard;
using namespace trainyard::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kTwoNodes =
    "cluster: {nodes: 2, node: dgx-1v, fabric: nonblocking}\nmodel: gpt2\nsoftware: pytorch-ddp\n"
    "plan: {global_batch_size: 16, micro_batch_size: 1, precision: fp16}\n";

struct ExportFolder : TopoFolder {
  ExportFolder() { write("two.yaml", kTwoNodes); }
  int run(const std::string& arguments) const { return trainyard("topo export " + arguments).exit; }
};

struct ExportTransfer {
  int from, to;  ///< ranks
  std::uint64_t bytes;
};

/// Durations of the transfers, one after the other, in SimGrid on this platform, with the settings of our runs.
json simgrid_times(const std::string& platform, const std::vector<ExportTransfer>& transfers, int gpus = 8) {
  return parse_json(test::in_child([&] {
    const char* arguments[] = {"test",
                               "--log=root.thres:error",
                               "--cfg=network/model:CM02",
                               "--cfg=network/TCP-gamma:0",
                               "--cfg=network/crosstraffic:0",
                               "--cfg=network/weight-S:0",
                               "--cfg=network/latency-factor:1",
                               "--cfg=network/bandwidth-factor:1",
                               "--cfg=network/optim:Lazy",
                               "--cfg=surf/precision:1e-12",
                               "--cfg=maxmin/precision:1e-9",
                               nullptr};
    int count = static_cast<int>(std::size(arguments)) - 1;
    simgrid::s4u::Engine engine(&count, const_cast<char**>(arguments));
    engine.load_platform(platform);
    const auto host = [&](int rank) {
      return engine.host_by_name("node" + std::to_string(rank / gpus) + "/gpu" + std::to_string(rank % gpus));
    };
    json times = json::array();
    simgrid::s4u::Actor::create("transfers", host(0), [&] {
      for (const ExportTransfer& t : transfers) {
        const double begin = simgrid::s4u::Engine::get_clock();
        simgrid::s4u::Comm::sendto(host(t.from), host(t.to), t.bytes);
        times.push_back(simgrid::s4u::Engine::get_clock() - begin);
      }
    });
    engine.run();
    return times.dump();
  }));
}

double our_time(const Scenario& scenario, const ExportTransfer& t) {
  ClusterMachine machine(scenario.cluster, scenario.software);
  Simulation simulation(machine);
  for (Actor a = 0; a < scenario.cluster.gpus(); ++a)
    simulation.add(a, a == t.from ? std::make_unique<ListProgram>(std::vector<Op>{send(static_cast<double>(t.bytes))},
                                                                  std::vector<Actor>{static_cast<Actor>(t.to)})
                      : a == t.to ? std::make_unique<ListProgram>(std::vector<Op>{recv()},
                                                                  std::vector<Actor>{static_cast<Actor>(t.from)})
                                  : std::make_unique<ListProgram>(std::vector<Op>{}));
  return simulation.run().end.value;
}

}  // namespace

TEST_CASE("topo export: SimGrid loads the platform and gives the same transfer times", "[topo]") {
  const ExportFolder files;
  REQUIRE(files.run("two.yaml --simgrid two.xml") == 0);
  CHECK(files.text(".out").empty());
  const Scenario scenario = read_scenario_text(kTwoNodes, "two.yaml");
  // Transfers over NVLink (two links, one link), between sockets over PCIe, between nodes by equal and different HCAs.
  // The last one is so small that it takes only the latency.
  const std::vector<ExportTransfer> transfers{{0, 3, 300'000'000}, {0, 1, 1'000'003},  {0, 5, 300'000'000},
                                              {1, 9, 300'000'000}, {7, 8, 12'345'678}, {0, 15, 1}};
  const json simgrid = simgrid_times((files.path() / "two.xml").string(), transfers);
  REQUIRE(simgrid.size() == transfers.size());
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    CAPTURE(transfers[i].from, transfers[i].to);
    CHECK(simgrid[i].get<double>() == near(our_time(scenario, transfers[i])));
  }
  // The platform has the rate of HCAs that --set gives.
  REQUIRE(files.run("two.yaml --set cluster.hca.rate=50Gbit/s --simgrid slow.xml") == 0);
  const json slow = simgrid_times((files.path() / "slow.xml").string(), {{1, 9, 300'000'000}});
  CHECK(slow[0].get<double>() - simgrid[3].get<double>() == Approx(300e6 / 6.25e9 - 300e6 / 12.5e9).epsilon(1e-9));
}

TEST_CASE("topo export covers shared media, stops in host memory, several node types and fabrics of chips", "[topo]") {
  const ExportFolder files;
  // Transfers are staged at both ends and copied by CPUs (TCP), over a hub, on half-duplex lanes. The second node has
  // another NIC.
  const std::string node =
      "{base: t4-server, cpu: {memory_bandwidth: 80 GB/s, copy_rate: 8 GB/s}, pcie: {duplex: half, peer_to_peer: "
      "none}, hca: {transport: tcp, gpudirect: false, rate: ";
  const std::string rest =
      "\nmodel: gpt2\nsoftware: pytorch-ddp\nplan: {global_batch_size: 8, micro_batch_size: 1, precision: fp16}\n";
  const std::string hub =
      "cluster:\n  nodes:\n    - {count: 1, node: " + node + "50 Gbit/s}}}\n    - {count: 1, node: " + node +
      "10 Gbit/s}}, gpu_speed: 0.5}\n  fabric: {type: ethernet, hub: true, switch_latency: 1 us}" + rest;
  const std::string chips =
      "cluster:\n  nodes: 2\n  node: t4-server\n  fabric: {type: torus, joins: chips, dims: [4, 2], link_rate: 50 "
      "GB/s, "
      "switch_latency: 1 us}" +
      rest;
  const std::string ring =
      "cluster:\n  nodes: 2\n  node: t4-server\n  fabric: {type: ring, switch_latency: 1 us}" + rest;
  for (const std::string& text : {hub, chips, ring}) {
    INFO(text);
    std::ofstream(files.path() / "s.yaml") << text;
    const int code = files.run("s.yaml --simgrid s.xml");
    INFO(files.text(".err"));
    REQUIRE(code == 0);
    const Scenario scenario = read_scenario_text(text, "s.yaml");
    const std::vector<ExportTransfer> transfers{{0, 3, 300'000'000}, {0, 4, 100'000'000}, {6, 1, 50'000'000}};
    const json simgrid = simgrid_times((files.path() / "s.xml").string(), transfers, 4);
    REQUIRE(simgrid.size() == transfers.size());
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      CAPTURE(transfers[i].from, transfers[i].to);
      CHECK(simgrid[i].get<double>() == near(our_time(scenario, transfers[i])));
    }
  }
  CHECK(files.run("t4-server --set gpu_speed=0.5 --simgrid -") == 0);
  CHECK(files.text(".out").find("<host id=\"node0/gpu0\" speed=\"32500000000000f\"/>") != std::string::npos);
}

TEST_CASE("topo export names a route for every ordered pair, and each link once", "[topo]") {
  const ExportFolder files;
  REQUIRE(files.run("dgx-a100 --simgrid -") == 0);
  const std::string xml = files.text(".out");
  const auto count = [&xml](const std::string& word) {
    std::size_t n = 0;
    for (std::size_t at = xml.find(word); at != std::string::npos; at = xml.find(word, at + 1)) ++n;
    return n;
  };
  CHECK(count("<host ") == 8);
  CHECK(count("<route ") == 8 * 7);
  // Links: GPU, HCA and uplink at each PCIe switch, GPU at the NVSwitch, the sockets, memory and copies of each CPU.
  CHECK(count("<link ") == 2 * (8 + 8 + 8 + 8 + 1) + 2 * 2);
  CHECK(count("software between nodes") == 0);
  CHECK(count("<host id=\"node0/gpu0\" speed=\"312000000000000f\"/>") == 1);
  CHECK(count("<link id=\"node0/gpu0 -&gt; node0/nvswitch\" bandwidth=\"300000000000Bps\" latency=\"4.825e-07s\" "
              "sharing_policy=\"SHARED\"/>") == 1);
}

TEST_CASE("topo export refuses in one line and writes nothing", "[topo]") {
  const ExportFolder files;
  const auto check_refused = [&files](const std::string& arguments, const std::string& error) {
    INFO(arguments);
    CHECK(files.run(arguments) == 2);
    CHECK(files.text(".err") == error + "\n");
    CHECK(files.text(".out").empty());
    CHECK_FALSE(fs::exists(files.path() / "x.xml"));
  };
  check_refused("dgx-1v", "trainyard topo export: --simgrid FILE expected");
  check_refused("dgx-1x --simgrid x.xml", "trainyard topo export: unknown node \"dgx-1x\"; did you mean \"dgx-1p\"?");
  check_refused("two.yaml --set cluster.nodes=9 --set plan.global_batch_size=72 --simgrid x.xml",
                "72 GPUs are too many for a SimGrid platform, which gets a route for each pair; the most is 64");
}

}  // namespace tools_test_topo_export
