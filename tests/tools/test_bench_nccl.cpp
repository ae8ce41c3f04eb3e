// `trainyard bench` by the fitted model of NCCL: its choice of algorithm and protocol, and its words.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/collective_doubt.hpp"
#include "tests/tools/bench_shell.hpp"

namespace tools_test_bench_nccl {

using nlohmann::json;
using trainyard::CollectiveDoubt;
using trainyard::kLinkedGpus;
using trainyard::test::BenchShell;
using trainyard::test::TopoAnswer;

TEST_CASE("bench tries the sums of switches that are set up for them", "[bench][collectives]") {
  const BenchShell shell;
  const auto time = [&shell](const std::string& fabric, const std::string& algorithm) {
    const json row = shell.rows("all_reduce --on dgx-a100 --nodes 4 -b 64K -e 64K --fabric '{base: nonblocking" +
                                fabric + "}' --algorithm " + algorithm)["rows"][0];
    return row["time_us"].get<double>();
  };
  CHECK(time(", sharp: true", "auto") <= time(", sharp: true", "collnet-direct"));
  CHECK(time(", sharp: true", "auto") < time("", "auto"));
}

TEST_CASE("bench says which adapters a slot or the port of a switch slows down", "[bench][collectives]") {
  const BenchShell shell;
  const auto answer = [&shell](const std::string& words) {
    return shell.trainyard("bench all_reduce -b 64M -e 64M --on dgx-h100 --nodes 2 --fabric " + words);
  };
  const std::string slot = "# adapters: 800 Gbit/s of dgx-h100 capped by its slot at 504 Gbit/s\n",
                    port = "# adapters: 400 Gbit/s of dgx-h100 capped by its switch port at 10 Gbit/s\n";
  CHECK_THAT(answer("nonblocking --set hca.type=connectx-8").out, Catch::Contains(slot));
  CHECK_THAT(answer("'{base: nonblocking, switch: ethernet-switch}'").out, Catch::Contains(port));
  CHECK_THAT(answer("nonblocking").out, !Catch::Contains("# adapters"));
  CHECK_THAT(answer("nonblocking --set hca.type=connectx-8 --gpus 8").out, !Catch::Contains("# adapters"));
}

TEST_CASE("bench slows the links that the scenario slows, or refuses them", "[bench][collectives]") {
  const BenchShell shell;
  const std::string scenario =
      "{name: s, cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}, model: gpt2, plan: {micro_batch_size: 1}";
  shell.write("whole.yaml", scenario + "}\n");
  shell.write("slow.yaml", scenario + ", faults: {links: [{link: node0/hca0 - fabric, factor: 0.25}]}}\n");
  const std::string words = " --algorithm ring -b 64M -e 64M";
  for (const char* fidelity : {"messages", "flows"}) {
    const auto time = [&](const std::string& file) {
      return shell.rows("all_reduce --on " + file + words + " --fidelity " + fidelity)["rows"][0]["time_us"]
          .get<double>();
    };
    CHECK(time("slow.yaml") > 3.5 * time("whole.yaml"));
    CHECK(time("slow.yaml --set faults.links=null") == time("whole.yaml"));
  }
  for (const char* others : {"", " --algorithm auto", " --algorithm ring --transport native"}) {
    const TopoAnswer refused = shell.trainyard(std::string("bench all_reduce --on slow.yaml") + others);
    CHECK(refused.exit == 2);
    CHECK_THAT(refused.err, Catch::Contains("slow.yaml:1:") && Catch::Contains("expected --algorithm"));
  }
}

TEST_CASE("eager pieces of a chain share the link, as the help of --mode says", "[bench][collectives]") {
  const BenchShell shell;
  const auto time = [&shell](const std::string& mode) {
    return shell.rows("broadcast --on dgx-a100 --algorithm chain -b 64M -e 64M --mode " + mode)["rows"][0]["time_us"]
        .get<double>();
  };
  CHECK(time("eager") > time("rendezvous"));
  std::string help = shell.trainyard("bench --help").out;
  help.erase(std::unique(help.begin(), help.end(), [](char a, char b) { return std::isspace(a) && std::isspace(b); }),
             help.end());
  std::ranges::replace(help, '\n', ' ');
  CHECK_THAT(help, Catch::Contains("the pieces of a chain or tree share the links at once, which takes longer"));
}

TEST_CASE("SHARP runs only on a fabric whose switches sum", "[bench][collectives]") {
  const BenchShell shell;
  for (const char* node : {"p4d.24xlarge", "frontier", "p3.16xlarge", "t4-server", "gaudi-2-8x", "dgx-a100"}) {
    const std::string on = std::string("bench all_reduce -b 64K -e 64K --nodes 4 --on ") + node;
    const TopoAnswer messages = shell.trainyard(on + " --fabric nonblocking --algorithm sharp");
    CHECK(messages.exit == 2);
    CHECK_THAT(messages.err, Catch::Contains("(those of a fabric with sharp: true, InfiniBand, do)"));
    const TopoAnswer sums = shell.trainyard(on + " --fabric '{base: nonblocking, sharp: true}' --algorithm sharp");
    CHECK(sums.exit == (node == std::string("dgx-a100") ? 0 : 2));
    if (sums.exit != 0) CHECK_THAT(sums.err, Catch::Contains("only InfiniBand has SHARP"));
  }
}

TEST_CASE("bench says by which time NCCL chose, if contention between nodes makes it longer", "[bench][collectives]") {
  const BenchShell shell;
  const std::string hashed =
      "all_reduce --on dgx-a100 --nodes 16 -b 16M -e 16M --fabric '{base: leaf-spine, levels: [{down: 8, "
      "oversubscription: 2}], routing: ecmp, queue_pairs: 4}' ";
  const std::string free = "all_reduce --on dgx-a100 --nodes 16 -b 16M -e 16M --fabric nonblocking ";
  const std::string slow = "--set 'gpu.nvlink=200 GB/s'", fast = "--set 'gpu.nvlink=400 GB/s'";
  const auto row = [&shell](const std::string& arguments) { return shell.rows(arguments)["rows"][0]; };
  // The figures of machines-and-collectives.md, "What NCCL chooses".
  CHECK(row(hashed + slow)["algorithm"] == "NCCL, tree, LL128");
  CHECK(row(hashed + slow)["time_us"].get<double>() == Approx(872).margin(0.5));
  CHECK(row(hashed + fast)["algorithm"] == "NCCL, tree, Simple");
  CHECK(row(hashed + fast)["time_us"].get<double>() == Approx(1071).margin(0.5));
  CHECK(row(hashed + fast)["chosen_by_us"].get<double>() == Approx(644).margin(0.5));
  CHECK(row(hashed + fast)["chosen_by_us"] == row(free + fast)["time_us"]);
  CHECK_FALSE(row(free + fast).contains("chosen_by_us"));
  const std::string line =
      "# NCCL chooses by times without contention: 643.7 us for 16777216 B, which take 1071.1 us here\n";
  CHECK(shell.trainyard("bench " + hashed + fast).out.find(line) != std::string::npos);
  CHECK(shell.trainyard("bench " + free + fast).out.find("without contention") == std::string::npos);
}

TEST_CASE("bench names NCCL's algorithm and counts its channels", "[bench]") {
  const BenchShell shell;
  const std::string large = " -b 256M -e 256M --no-check";
  const auto row = [&](const std::string& words) { return shell.rows("all_gather --on " + words + large)["rows"][0]; };
  const json two = row("dgx-a100 --nodes 2 --fabric nonblocking");
  CHECK(two["algorithm"] == "NCCL, ring, Simple");
  CHECK(two["channels"] == 8);
  CHECK(row("l40s-8x")["channels"] == 1);
  CHECK(row("dgx-1v")["channels"] == 6);  // the wires of a DGX-1 make three rings, in both directions
  const TopoAnswer text = shell.trainyard("bench all_gather --on dgx-a100 --nodes 2 --fabric nonblocking" + large);
  CHECK(text.out.find("NCCL, ring, Simple of 8 channels\n") != std::string::npos);
  const json pairs = shell.rows("all_to_all --on dgx-a100" + large)["rows"][0];
  CHECK(pairs["algorithm"] == "NCCL, Simple");
  CHECK(pairs["channels"] == 0);
  CHECK(shell.rows("all_reduce --on dgx-a100 --algorithm bidirectional-ring" + large)["rows"][0]["channels"] == 2);
}

TEST_CASE("a modelled collective between nodes of 72 GPUs has a time", "[bench]") {
  const BenchShell shell;
  const json j = shell.rows("all_reduce --on gb200-nvl72 --nodes 2 --fabric nonblocking -b 1G -e 1G");
  CHECK(j["rows"][0]["time_us"] > 0);
}

TEST_CASE("a modelled collective uses the NVLink rings of a DGX-1", "[bench]") {
  const BenchShell shell;
  const json j = shell.rows("all_reduce --on dgx-1v -b 64M -e 64M");
  CHECK(j["rows"][0]["busbw_GBps"] > 90);  // NVLink, not PCIe at 16
}

TEST_CASE("with more GPUs in a node than were measured, NCCL changes its protocol at larger sizes", "[bench]") {
  const BenchShell shell;
  for (const std::string node : {"gb300-nvl72", "vr-nvl72"})
    for (const std::string operation : {"all_gather", "reduce_scatter", "all_reduce"}) {
      const json j = shell.rows(operation + " --on " + node + " -b 1M -e 4G -f 2");
      CHECK(j["scaled"].get<std::string>().find("from b200-sxm") != std::string::npos);
      CHECK(j["scaled"].get<std::string>().find("up to 8 GPUs of a node, extrapolated to 72") != std::string::npos);
      double before = 1e9;
      for (const json& row : j["rows"]) {
        CAPTURE(node, operation, row["size_bytes"], before);
        // All sizes up to 64 MiB have one protocol; Simple begins with longer steps.
        CHECK(row["time_us"].get<double>() <= (row["size_bytes"] <= 1 << 26 ? 2 : 5) * before);
        before = row["time_us"];
      }
    }
}

TEST_CASE("without an algorithm bench uses the fitted model of NCCL", "[bench]") {
  const BenchShell shell;
  const json j = shell.rows("all_reduce --on dgx-h100 -b 8 -e 1G -f 128");
  CHECK(j["fidelity"] == "modelled");
  CHECK(j["rows"][0]["wrong"].is_null());
  CHECK(j["rows"][0]["algorithm"] == "NCCL, ring, LL");
  CHECK(j["rows"][0]["channels"] == 1);  // one ring in rank order
  CHECK(j["rows"].back()["algorithm"] == "NCCL, NVLS");
  CHECK(j["rows"].back()["channels"] == 0);
  const TopoAnswer scaled = shell.trainyard("bench all_reduce --on p3.16xlarge -b 1M -e 1M");
  CHECK(scaled.out.find("# not fitted to this GPU: scaled from") != std::string::npos);
  // Two of the measured systems are such nodes.
  const int systems = CollectiveDoubt::shipped().systems(kLinkedGpus);
  CHECK(systems > 1);
  CHECK(scaled.out.find(fmt::format(" ({}: {} measured systems)\n", kLinkedGpus, systems)) != std::string::npos);
}

TEST_CASE("bench names the algorithm that NCCL chooses, by its version, its switches and its rails", "[bench]") {
  const BenchShell shell;
  const auto nccl_choice = [&shell](const std::string& words) {
    const auto run = shell.trainyard("bench " + words + " -b 256M -e 256M");
    CAPTURE(run.err);
    REQUIRE(run.exit == 0);
    const std::size_t begin = run.out.find("NCCL, ");
    return run.out.substr(begin, run.out.find('\n', begin) - begin);
  };
  CHECK(nccl_choice("all_reduce --on dgx-h100") == "NCCL, NVLS");
  CHECK(nccl_choice("all_reduce --on dgx-h100 --nccl-version 2.16") == "NCCL, ring, Simple");
  const std::string four = " --on dgx-h100 --nodes 4 --fabric ";
  CHECK(nccl_choice("all_reduce" + four + "nonblocking") == "NCCL, NVLS tree");
  CHECK(nccl_choice("all_reduce" + four + "'{base: nonblocking, sharp: true}'") == "NCCL, NVLS, SHARP");
  CHECK(nccl_choice("all_to_all" + four + "rail-optimized") == "NCCL, Simple, PXN");
  CHECK(nccl_choice("all_to_all" + four + "rail-optimized --no-pxn") == "NCCL, Simple");
  // The software of a scenario can state the version, too.
  const std::string scenario = "all_reduce --on '" TRAINYARD_SOURCE_DIR "/scenarios/bert-large-ddp-8xh100.yaml'";
  CHECK(nccl_choice(scenario) == "NCCL, NVLS");
  CHECK(nccl_choice(scenario + " --set software.nccl_version=2.16") == "NCCL, ring, Simple");
}

}  // namespace tools_test_bench_nccl
