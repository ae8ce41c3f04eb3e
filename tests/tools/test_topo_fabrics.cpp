// `trainyard topo show`, `path` and `check` with fabrics of every kind, named on the command line.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "sim/json_text.hpp"
#include "tests/svg_checks.hpp"
#include "tests/tools/topo_shell.hpp"
#include "topologies/routing.hpp"

namespace tools_test_topo_fabrics {

using Catch::Matchers::Contains;
using nlohmann::json;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

namespace {

const std::string kTorus = "t4-server --nodes 16 --fabric '{type: torus, dims: [4, 4], switch_latency: 100 ns}'";
const std::string kDragonfly =
    "t4-server --nodes 72 --fabric '{type: dragonfly, switches_a_group: 4, switch_latency: 100 ns}'";
const std::string kHub = "t4-server --nodes 8 --fabric '{type: ethernet, hub: true, switch_latency: 1 us}'";
const std::string kChips =
    "t4-server --nodes 4 --fabric '{type: torus, joins: chips, dims: [4, 4], link_rate: 50 GB/s, switch_latency: 1 "
    "us}'";
const std::string kHashed = "dgx-h100 --nodes 64 --fabric '{base: rail-optimized, routing: ecmp}'";

void check_refused(const TopoFolder& shell, const std::string& arguments, const std::string& error) {
  shell.check_refused("topo " + arguments, error);
}

}  // namespace

TEST_CASE("topo takes a node, the number of nodes and a fabric, without a scenario", "[topo][fabrics]") {
  const TopoFolder shell;
  const TopoAnswer check = shell.run("check dgx-h100 --nodes 64 --fabric rail-optimized");
  INFO(check.err);
  CHECK(check.exit == 0);
  CHECK_THAT(check.out, Contains("dgx-h100: 64 × dgx-h100") && Contains("nonblocking with ideal splitting: yes"));
  const TopoAnswer path = shell.run("path dgx-h100 --nodes 2 --fabric nonblocking 0 node1/gpu3 --json -");
  CHECK(trainyard::parse_json(path.out)["limit_kind"] == "HCA");
  const json slower = trainyard::parse_json(
      shell.run("path t4-server --nodes 2 --fabric nonblocking 0 4 --set hca.rate=8Gbit/s --json -").out);
  CHECK(slower["rate_Bps"] == 1e9);
  // Overrides a field of the fabric, and one of the node.
  const json ring =
      trainyard::parse_json(shell
                                .run("check t4-server --nodes 8 --fabric '{type: ring, switch_latency: 1 us}' "
                                     "--set fabric.wrap=false --set hca.rate=80Gbit/s --json -")
                                .out);
  CHECK(ring["bisection_Bps"] == Approx(10e9));
  CHECK(shell.run("export t4-server --nodes 2 --fabric nonblocking --simgrid two.xml").exit == 0);
  CHECK_THAT(shell.text("two.xml"), Contains("node1/gpu3"));
}

TEST_CASE("topo refuses impossible clusters, with the nearest name", "[topo][fabrics]") {
  const TopoFolder shell;
  check_refused(shell, "check dgx-h100 --nodes 8 --fabric rail-optimised",
                "--fabric: unknown fabric \"rail-optimised\"; did you mean \"rail-optimized\"?");
  check_refused(shell, "check dgx-h10 --nodes 8 --fabric nonblocking",
                "trainyard topo check: unknown node \"dgx-h10\"; did you mean \"dgx-h100\"?");
  check_refused(shell, "show dgx-h100 --nodes 0 --fabric nonblocking",
                "--nodes 0: cluster.nodes: 0 is too small; the least is 1");
  CHECK_THAT(shell.run("show dgx-h100 --nodes eight --fabric nonblocking").err, Contains("--nodes eight"));
  CHECK_THAT(shell.run("show dgx-h100 --nodes 8").err, Contains("missing key \"fabric\""));
  CHECK_THAT(shell.run("show dgx-h100 --nodes 8 --fabric '{type: torsu, switch_latency: 1 us}'").err,
             Contains("did you mean \"torus\"?"));
  CHECK_THAT(shell.run("check dgx-h100 --nodes 8 --fabric '{type: torus, dims: [3], switch_latency: 1 us}'").err,
             Contains("a torus of 3 has 3 places, but there are 8 nodes"));
  shell.write("two.yaml",
              "cluster: {nodes: 2, node: dgx-1v, fabric: nonblocking}\nmodel: gpt2\n"
              "software: pytorch-ddp\n"
              "plan: {global_batch_size: 16, micro_batch_size: 1, precision: fp16}\n");
  check_refused(shell, "check two.yaml --nodes 4",
                "trainyard topo check: two.yaml is a scenario, which has nodes and fabric of its own: "
                "--set cluster.nodes=...");
}

TEST_CASE("topo check shows the effect of static routing on a fabric", "[topo][fabrics]") {
  const TopoFolder shell;
  const TopoAnswer text = shell.run("check " + kTorus);
  CHECK_THAT(text.out, Contains("nonblocking with ideal splitting: yes: routed through every switch in turn") &&
                           Contains("nonblocking as routed (dimension order, one path for each pair): no: router") &&
                           Contains("counterexample: 2 pairs at once") &&
                           Contains("simulated 2 times slower than one alone"));
  CHECK(text.out.find("oversubscription") == std::string::npos);
  const json torus = trainyard::parse_json(shell.run("check " + kTorus + " --json -").out);
  CHECK(torus["nonblocking"] == true);
  CHECK(torus["bisection_Bps"] == Approx(8 * 6.25e9));
  CHECK(torus["bisection_exact"] == true);
  CHECK(torus["oversubscription"].empty());
  CHECK(torus["counterexample"].is_null());
  CHECK(torus["routing"]["how"] == "dimension order");
  CHECK(torus["routing"]["nonblocking"] == false);
  CHECK(torus["routing"]["counterexample"]["slowdown"] == Approx(2));
  const json hub = trainyard::parse_json(shell.run("check " + kHub + " --set hca.duplex=half --json -").out);
  CHECK(hub["nonblocking"] == false);
  CHECK_THAT(hub["reason"].get<std::string>(), Contains("one sender at a time"));
  CHECK(hub["counterexample"]["link"] == "hub medium");
  CHECK(hub["counterexample"]["slowdown"] == Approx(8));
  CHECK(hub["routing"].is_null());
  CHECK_THAT(shell.run("check " + kChips).out, Contains("between chips"));
  CHECK_THAT(shell.run("check --help").out, Contains("bisection_exact") && Contains("routing"));
}

TEST_CASE("topo show lists the parts of each fabric", "[topo][fabrics]") {
  const TopoFolder shell;
  CHECK_THAT(shell.run("show " + kTorus).out,
             Contains("torus 4 x 4 of nodes, 16 routers, 32 links between neighbours at 6.25 GB/s, 16 links to HCAs"));
  CHECK_THAT(shell.run("show t4-server --nodes 12 --fabric '{type: torus, dimensions: 2, switch_latency: 1 us}'").out,
             Contains("torus 3 x 4 of nodes"));
  CHECK_THAT(shell.run("show t4-server --nodes 5 --fabric '{type: ring, switch_latency: 1 us}'").out,
             Contains("ring 5 of nodes, 5 routers, 5 links between neighbours"));
  CHECK_THAT(
      shell.run("show t4-server --nodes 8 --fabric '{type: torus, dims: [4, 2], wrap: false, switch_latency: 1 us}'")
          .out,
      Contains("mesh 4 x 2 of nodes, 8 routers, 10 links between neighbours"));
  CHECK_THAT(shell.run("show " + kChips).out,
             Contains("torus 4 x 4 of chips") && Contains("gpu0    PCIe 15.8 GB/s, 250 ns; ICI 200 GB/s"));
  CHECK_THAT(shell.run("show " + kDragonfly).out,
             Contains("9 groups of 4 switches, 72 links to HCAs at 6.25 GB/s; 54 links within groups") &&
                 Contains("global links, 36 links between groups") && Contains("routing: minimal"));
  CHECK_THAT(shell.run("show " + kHub).out, Contains("Ethernet hub, 8 links to HCAs at 6.25 GB/s, all on one medium"));
  CHECK_THAT(shell.run("show " + kHashed).out,
             Contains("level 1: 16 switches (leaf), 512 links down to HCAs at 50.0 GB/s, 512 up at 50.0 GB/s") &&
                 Contains("level 2: 32 switches (spine), 512 links down to level 1") &&
                 Contains("routing: hashed ECMP with seed 1"));
  CHECK_THAT(shell
                 .run("show t4-server --nodes 2 --fabric '{type: graph, switch_latency: 1 us, switches: [a, b], "
                      "links: [{from: node0/hca0, to: a}, {from: node1/hca0, to: b}, "
                      "{from: a, to: b, rate: 1 GB/s, duplex: half}]}'")
                 .out,
             Contains("2 switches, 2 links to HCAs") && Contains("a - b, 1.00 GB/s half duplex"));
}

TEST_CASE("topo show shows drives, host memory, half duplex and stops in host memory", "[topo][fabrics]") {
  const TopoFolder shell;
  const std::string node =
      "show t4-server --set pcie.duplex=half --set cpu.memory_bandwidth=80GB/s --set cpu.copy_rate=8GB/s "
      "--set 'nvme={count: 2, read: 3 GB/s, write: 1 GB/s, latency: 80 us}'";
  const TopoAnswer text = shell.run(node + " --set pcie.peer_to_peer=none");
  INFO(text.err);
  CHECK_THAT(text.out, Contains("cpu0    memory 80.0 GB/s, copies 8.00 GB/s") &&
                           Contains("gpu0    PCIe 15.8 GB/s half duplex, 250 ns") &&
                           Contains("nvme0   NVMe reads 3.00 GB/s, writes 1.00 GB/s, 80.0 us") &&
                           Contains("through host memory, in chunks of 512 KiB") &&
                           Contains("for example gpu0 and gpu1 (PHB)") &&
                           Contains("reaches no other memory over PCIe"));
  CHECK(shell.run("show t4-server").out.find("host memory") == std::string::npos);
  CHECK(shell.run(node + " --svg a.svg --dot a.dot --json a.json").exit == 0);
  trainyard::test::well_formed(shell.text("a.svg"));
  CHECK_THAT(shell.text("a.svg"),
             Contains("nvme1") && Contains("r 3 w 1 GB/s") && Contains("half duplex") && Contains("mem 80.0 GB/s"));
  CHECK_THAT(shell.text("a.dot"), Contains("PCIe 15.8 GB/s half duplex") && Contains("memory 80.0 GB/s") &&
                                      Contains("NVMe reads 3.00 GB/s, writes 1.00 GB/s"));
  const json wiring = trainyard::parse_json(shell.text("a.json"));
  int half = 0, drives = 0;
  for (const json& link : wiring["links"]) {
    half += link["half_duplex"] == true ? 1 : 0;
    drives += link["rate_Bps"] != link["rate_back_Bps"] ? 1 : 0;
  }
  CHECK(half == 4 + 4 + 1);
  CHECK(drives == 2);
}

TEST_CASE("topo show draws a node that is described wire by wire", "[topo][fabrics]") {
  const TopoFolder shell;
  shell.write(
      "box.yaml",
      "base: t4-server\ninterconnect: graph\ngpu: {count: 3, type: v100-sxm2-16gb}\nhca: {count: 1, rate: 50 Gbit/s, "
      "latency: 2 us}\nswitches: [upper, lower, nvs]\n"
      "wires:\n"
      "  - {from: upper, to: cpu0, kind: PCIe, rate: 16 GB/s, latency: 250 ns}\n"
      "  - {from: lower, to: upper, kind: PCIe, rate: 16 GB/s, latency: 250 ns}\n"
      "  - {from: gpu0, to: lower, kind: PCIe, rate: 16 GB/s, latency: 250 ns}\n"
      "  - {from: hca0, to: lower, kind: PCIe, rate: 8 GB/s, latency: 250 ns, duplex: half}\n"
      "  - {from: gpu1, to: upper, kind: PCIe, rate: 16 GB/s, latency: 250 ns}\n"
      "  - {from: gpu1, to: lower, kind: PCIe, rate: 4 GB/s, latency: 250 ns}\n"
      "  - {from: gpu0, to: nvs, kind: NVLink, rate: 25 GB/s, latency: 500 ns}\n"
      "  - {from: nvs, to: gpu2, kind: NVLink, rate: 25 GB/s, latency: 500 ns}\n"
      "  - {from: gpu1, to: gpu2, kind: NVLink, rate: 25 GB/s, latency: 500 ns}\n");
  const TopoAnswer text = shell.run("show box.yaml --dot a.dot");
  INFO(text.err);
  REQUIRE(text.exit == 0);
  CHECK_THAT(text.out,
             Contains("│     └─ hca0    PCIe 8.00 GB/s half duplex") || Contains("hca0    PCIe 8.00 GB/s half"));
  CHECK_THAT(text.out, Contains("\ngpu2\n") && Contains("also PCIe 4.00 GB/s, 250 ns: gpu1–lower"));
  const TopoAnswer svg = shell.run("show box.yaml --svg -");
  trainyard::test::well_formed(svg.out);
  CHECK_THAT(svg.out, Contains("lower") && Contains("gpu2") && Contains("NVSwitch"));
}

TEST_CASE("topo show draws the switch of each rail below its adapter, and GPUs on their rails", "[topo][fabrics]") {
  using namespace trainyard;
  const TopoFolder shell;
  const std::regex gpu_label("rail [0-7]</text>");
  for (const std::string name : {"dgx-a100", "dgx-h100"})
    for (const std::string fabric : {"rail-only", "rail-optimized"}) {
      CAPTURE(name, fabric);
      const TopoAnswer svg = shell.run("show " + name + " --nodes 4 --fabric " + fabric + " --svg -");
      REQUIRE(svg.exit == 0);
      test::well_formed(svg.out);
      test::rectangles_within(svg.out);
      // Eight boxes of switches, and the rail of each GPU: that of the adapter on which its messages leave.
      std::vector<int> labels(8, 0);
      for (std::sregex_iterator at(svg.out.begin(), svg.out.end(), gpu_label), none; at != none; ++at)
        ++labels[static_cast<std::size_t>(at->str()[5] - '0')];
      CHECK(labels == std::vector<int>(8, 2));
      for (int rail = 0; rail < 8; ++rail) CHECK_THAT(svg.out, Contains(">leaf" + std::to_string(rail) + "<"));
      CHECK((svg.out.find("no switch joins them") != std::string::npos) == (fabric == "rail-only"));
      ClusterSpec spec;
      spec.nodes = 4;
      const Catalog catalog;
      spec.node = read_node(catalog.resolve("node", Node::scalar_node(name)), catalog);
      read_fabric(spec, catalog.resolve("fabric", Node::scalar_node(fabric)), catalog);
      DeviceGraph graph = build_cluster(spec);
      Routing routing(graph, spec);
      for (const DeviceId gpu : graph.devices_of_kind(DeviceKind::gpu, 0)) {
        const auto devices = graph.devices();
        const int rail = devices[static_cast<std::size_t>(routing.hca_of(gpu))].index;
        // The box of the GPU has the colour of its rail's label, which stands over it.
        const std::string box = "gpu" + std::to_string(devices[static_cast<std::size_t>(gpu)].index) + "</text>";
        const std::size_t at = svg.out.find(box);
        REQUIRE(at != std::string::npos);
        const std::size_t label = svg.out.find("rail ", at);
        CHECK(svg.out.substr(label, 6) == "rail " + std::to_string(rail));
      }
    }
  const TopoAnswer none = shell.run("show dgx-a100 --nodes 4 --fabric leaf-spine --svg -");
  CHECK(none.out.find("rail ") == std::string::npos);
}

TEST_CASE("pictures of every fabric are well formed, and small even if the fabric is large", "[topo][fabrics]") {
  const TopoFolder shell;
  for (const std::string& machine : {kTorus, kDragonfly, kHub, kChips, kHashed}) {
    INFO(machine);
    const TopoAnswer svg = shell.run("show " + machine + " --svg - --dot a.dot");
    CHECK(svg.exit == 0);
    trainyard::test::well_formed(svg.out);
    CHECK(svg.out.size() < 60'000);
    CHECK(shell.text("a.dot").size() < 100'000);
  }
  CHECK(shell.run("show " + kHashed + " --dot a.dot").exit == 0);
  CHECK_THAT(shell.text("a.dot"), Contains("level 2: 32 switches (spine)") && Contains("\"fabric0\" -- \"fabric1\""));
  CHECK(shell.text("a.dot").find("node1/") == std::string::npos);
}

}  // namespace tools_test_topo_fabrics
