// `trainyard topo path` and `topo show` as a user sees them.
#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_topo_path {

using nlohmann::json;
namespace fs = std::filesystem;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

namespace {

struct TopoShell : TopoFolder {
  TopoShell() {
    write("two.yaml",
          "cluster: {nodes: 2, node: dgx-1v, fabric: nonblocking}\nmodel: gpt2\nsoftware: pytorch-ddp\n"
          "plan: {global_batch_size: 16, micro_batch_size: 1, precision: fp16}\n");
  }
  void refused(const std::string& arguments, const std::string& error) const {
    check_refused("topo " + arguments, error);
  }
};

}  // namespace

TEST_CASE("topo path names hops, limit, rate and latency", "[topo]") {
  const TopoShell shell;
  const TopoAnswer text = shell.run("path dgx-1v gpu0 gpu5");
  CHECK(text.exit == 0);
  CHECK(text.out.find("SYS: through more than one socket") != std::string::npos);
  CHECK(text.out.find("at most 15.8 GB/s, the rate of PCIe (node0/gpu0 -> node0/pcie0); latency 1.25 us") !=
        std::string::npos);
  const json nvlink = trainyard::parse_json(shell.run("path dgx-1v 0 node0/gpu3 --json -").out);
  CHECK(nvlink["hops"].size() == 1);
  CHECK(nvlink["limit"] == "node0/gpu0 -> node0/gpu3");
  CHECK(nvlink["rate_Bps"] == 50e9);
  CHECK(nvlink["latency_s"] == Approx(0.965e-6));
  const json pcie = trainyard::parse_json(shell.run("path dgx-1v 0 3 --path pcie --json -").out);
  CHECK(pcie["locality"] == "PHB");
  CHECK(pcie["hops"].size() == 4);
  const json slower = trainyard::parse_json(
      shell.run("path dgx-1v 0 5 --set socket_link.rate=5GB/s --set pcie.rate=8GB/s --json -").out);
  CHECK(slower["limit"] == "node0/cpu0 -> node0/cpu1");
  CHECK(slower["rate_Bps"] == 5e9);
}

TEST_CASE("topo path between the nodes of a scenario includes the latency of the software", "[topo]") {
  const TopoShell shell;
  const json path = trainyard::parse_json(shell.run("path two.yaml 1 node1/gpu1 --json -").out);
  CHECK(path["locality"] == "NET");
  CHECK(path["limit_kind"] == "HCA");
  CHECK(path["rate_Bps"] == 12.5e9);
  double wires = 0;
  for (const json& hop : path["hops"]) wires += hop["latency_s"].get<double>();
  CHECK(path["software_latency_s"].get<double>() > 0);
  CHECK(path["latency_s"].get<double>() == Approx(wires + path["software_latency_s"].get<double>()));
}

TEST_CASE("topo refuses unknown names in one line", "[topo]") {
  const TopoShell shell;
  shell.refused("path dgx-1x 0 1", "trainyard topo path: unknown node \"dgx-1x\"; did you mean \"dgx-1p\"?");
  shell.refused("path dgx-1v gpu0 gpu9", "unknown device \"gpu9\"; did you mean \"node0/gpu0\"?");
  shell.refused("path dgx-1v 0 8", "rank 8: there are ranks 0 to 7");
  shell.refused("path dgx-1v 2 2", "node0/gpu2 to itself: there is no path");
  shell.refused("path dgx-1v 0 5 --path nvlink", "no such path leads from node0/gpu0 to node0/gpu5");
  shell.refused("path dgx-1v 0 5 --path pci", "--path pci: unknown; did you mean \"pcie\"?");
  shell.refused("path tow.yaml 0 5", "tow.yaml: no such file; did you mean \"two.yaml\"?");
  shell.refused("show dgx-1v --dot - --svg -", "trainyard topo show: --dot - and --svg - would both write to stdout");
  shell.refused("show pcie-4 --set pcie.lanes_per_socket=8",
                "trainyard topo show: node pcie-4, socket 0: 1 switch uplink needs 16 PCIe lanes, but there are 8");
  shell.refused("show two.yaml --set cluster.pcie.lanes_per_socket=16",
                "--set cluster.pcie.lanes_per_socket: cluster.node: node dgx-1v, socket 0: 2 switch uplinks need 32 "
                "PCIe lanes, but there are 16");
}

TEST_CASE("topo show draws a node as tree, matrix, DOT, SVG and JSON", "[topo]") {
  const TopoShell shell;
  const TopoAnswer tree = shell.run("show two.yaml");
  CHECK(tree.exit == 0);
  CHECK(tree.out.find("│  ├─ gpu1    PCIe 15.8 GB/s") != std::string::npos);
  CHECK(tree.out.find("gpu0   X     NV1   NV1   NV2   NV2   SYS   SYS   SYS   PIX   PHB") != std::string::npos);
  CHECK(tree.out.find("level 1: fabric, 8 links down to HCAs at 12.5 GB/s") != std::string::npos);
  const TopoAnswer two_levels = shell.run(
      "show two.yaml --set cluster.nodes=16 --set cluster.fabric=leaf-spine "
      "--set plan.global_batch_size=128");
  CHECK(two_levels.out.find("level 1: 2 switches (leaf), 64 links down to HCAs at 12.5 GB/s, 2 up at") !=
        std::string::npos);
  CHECK(shell.run("show dgx-1v --svg a.svg --dot a.dot --json a.json").exit == 0);
  const std::string svg = shell.text("a.svg"), dot = shell.text("a.dot");
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  for (const char* name : {"cpu1", "pcie3", "gpu7", "hca3", "NVLink 25.0 GB/s (thin) to 50.0 GB/s (thick)"})
    CHECK(svg.find(name) != std::string::npos);
  CHECK(dot.find("\"node0/gpu0\" -- \"node0/gpu3\" [label=\"NVLink 50.0 GB/s\"]") != std::string::npos);
  const json wiring = trainyard::parse_json(shell.text("a.json"));
  CHECK(wiring["devices"].size() == 2 + 4 + 8 + 4);
  CHECK(wiring["links"].size() == 1 + 4 + 12 + 16);
  CHECK(wiring["locality"]["node0/gpu0"]["node0/gpu7"] == "SYS");
  CHECK(shell.run("show dgx-1v --svg -").out == svg);
}

}  // namespace tools_test_topo_path
