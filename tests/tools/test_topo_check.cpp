// `trainyard topo check` as a user sees it.
#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_topo_check {

using nlohmann::json;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;
namespace fs = std::filesystem;

namespace {

/// 32 nodes with one HCA each, eight on a leaf, with 2:1 oversubscription.
struct CheckShell : TopoFolder {
  CheckShell() {
    write("clos.yaml",
          "cluster:\n  nodes: 32\n  node: {base: pcie-1, hca: {count: 1, rate: 100 Gbit/s, latency: 0.5 us}}\n"
          "  fabric: {base: leaf-spine, levels: [{down: 8, oversubscription: 2}]}\nmodel: gpt2\n"
          "software: pytorch-ddp\n"
          "plan: {global_batch_size: 32, micro_batch_size: 1, precision: fp32}\n");
  }
  TopoAnswer run(const std::string& arguments) const { return trainyard("topo check " + arguments); }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("topo check refutes an oversubscribed fabric and simulates the counterexample", "[topo][check]") {
  const CheckShell shell;
  const TopoAnswer text = shell.run("clos.yaml --json a.json");
  INFO(text.err);
  REQUIRE(text.exit == 0);
  INFO(text.out);
  CHECK(has(text.out,
            "nonblocking with ideal splitting: no: leaf0 -> spines carries 50.0 GB/s, but 8 HCAs "
            "can send 100 GB/s over it"));
  CHECK(has(text.out, "counterexample: 8 pairs at once (node0/hca0 -> node8/hca0, "));
  CHECK(has(text.out, "simulated 2 times slower than one alone"));
  CHECK(has(text.out, "bisection bandwidth: 100 GB/s, one direction"));
  const json all = trainyard::parse_json(shell.text("a.json"));
  CHECK(all["nonblocking"] == false);
  CHECK(all["bisection_Bps"] == Approx(100e9));
  CHECK(all["bisection_exact"] == true);
  CHECK(all["oversubscription"].size() == 1);
  CHECK(all["oversubscription"][0]["level"] == "leaf");
  CHECK(all["oversubscription"][0]["configured"] == 2);
  CHECK(all["diameter_hops"] == 4);
  CHECK(all["diameter_latency_s"].get<double>() == Approx(2 * 0.5e-6 + 3 * 130e-9));
  CHECK(all["counterexample"]["pairs"].size() == 8);
  CHECK(all["counterexample"]["pairs"][0] == json{"node0/hca0", "node8/hca0"});
  CHECK(all["counterexample"]["slowdown"].get<double>() == Approx(2).epsilon(1e-9));
  CHECK(trainyard::parse_json(shell.run("clos.yaml --json -").out) == all);
}

TEST_CASE("topo check proves that fabrics are nonblocking", "[topo][check]") {
  const CheckShell shell;
  for (const char* fabric : {"nonblocking", "leaf-spine", "fat-tree"}) {
    INFO(fabric);
    const json all =
        trainyard::parse_json(shell.run("clos.yaml --json - --set cluster.fabric=" + std::string(fabric)).out);
    CHECK(all["nonblocking"] == true);
    CHECK(all["counterexample"].is_null());
    CHECK(all["bisection_Bps"] == Approx(200e9));
  }
}

TEST_CASE("topo check of one node finds no fabric, and counts PCIe lanes", "[topo][check]") {
  const CheckShell shell;
  const TopoAnswer text = shell.run("pcie-4");
  CHECK(text.exit == 0);
  CHECK(has(text.out, "one node: no fabric\nPCIe lanes: socket 0 uses "));
  CHECK(has(shell.run("dgx-h100").out, "no fabric\nPCIe lanes: not counted, because the node does not state those"));
  const json all = trainyard::parse_json(shell.run("pcie-4 --set pcie.lanes_per_socket=64 --json -").out);
  CHECK(all["nonblocking"] == "unknown");
  CHECK(all["reason"] == "one node: no fabric");
  CHECK(all["bisection_Bps"].is_null());
  REQUIRE(!all["lanes"].empty());
  for (const json& socket : all["lanes"]) {
    CHECK(socket["available"] == 64);
    CHECK(socket["used"] > 0);
    CHECK(socket["used"] <= 64);
  }
}

TEST_CASE("topo check says why a network of separate rails has no bisection bandwidth", "[topo][check]") {
  const std::string rails = CheckShell().run("dgx-h100 --nodes 4 --fabric rail-only").out;
  CHECK(has(rails, "cannot reach all other HCAs\n"));
  CHECK(has(rails, "bisection bandwidth: none is stated, because switches do not join all HCAs\n"));
}

TEST_CASE("topo check refuses unknown names in one line", "[topo][check]") {
  const CheckShell shell;
  const TopoAnswer unknown = shell.run("dgx-1x");
  CHECK(unknown.exit == 2);
  CHECK(unknown.err == "trainyard topo check: unknown node \"dgx-1x\"; did you mean \"dgx-1p\"?\n");
  const TopoAnswer lanes = shell.run("pcie-4 --set pcie.lanes_per_socket=8 --json a.json");
  CHECK(lanes.exit == 2);
  CHECK(has(lanes.err, "but there are 8"));
  CHECK(!fs::exists(shell.path() / "a.json"));
}

}  // namespace tools_test_topo_check
