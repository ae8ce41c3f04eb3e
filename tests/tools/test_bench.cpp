// `trainyard bench` prints the table of nccl-tests.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "tests/tools/bench_shell.hpp"

namespace tools_test_bench {

using nlohmann::json;
using trainyard::test::BenchShell;
using trainyard::test::TopoAnswer;

TEST_CASE("background traffic slows an algorithm of bench, and the fitted model of NCCL refuses it",
          "[bench][background]") {
  const BenchShell shell;
  shell.write("two.yaml",
              "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nmodel: gpt2\nsoftware: plain\n"
              "plan: {micro_batch_size: 1}\n");
  const std::string two = "all_reduce --on two.yaml -b 1G -e 1G";
  const std::string half = " --set 'cluster.background={links: adapters, share: 0.5}'";
  const auto time = [&shell](const std::string& arguments) {
    return shell.rows(arguments)["rows"][0]["time_us"].get<double>();
  };
  CHECK(time(two + " --algorithm ring" + half) == Approx(2 * time(two + " --algorithm ring")).epsilon(0.02));
  shell.refused(two + half,
                "cluster.background: the fitted model of NCCL knows no traffic of others; expected --algorithm, for "
                "example --algorithm ring");
}

TEST_CASE("sizes of bench that contradict each other are refused, and a first size alone may be large", "[bench]") {
  const BenchShell shell;
  shell.refused("all_reduce --on dgx-a100 -b 8G -e 8", "-e 8.00 B: the last size must be at least the first, 8.00 GiB");
  shell.refused("all_reduce --on dgx-a100 -b 0 -e 8", "-b 0 B: the first size must be above 0");
  CHECK(shell.rows("all_reduce --on dgx-a100 -b 1G")["rows"].size() == 1);
}

TEST_CASE("bench prints nccl-tests' columns, its factors and a true #wrong", "[bench]") {
  const BenchShell shell;
  const json j = shell.rows("all_reduce --on dgx-a100 --algorithm ring -b 8M -e 32M -f 2");
  REQUIRE(j["rows"].size() == 3);
  for (const json& row : j["rows"]) {
    CHECK(row["wrong"] == 0);
    CHECK(row["wrong_in_place"] == 0);
    CHECK(row["algorithm"] == "ring");
    const double algorithm = row["size_bytes"].get<double>() / row["time_us"].get<double>() * 1e-3;
    CHECK(row["algbw_GBps"] == Approx(algorithm).epsilon(1e-9));
    CHECK(row["busbw_GBps"] == Approx(algorithm * 2 * 7 / 8).epsilon(1e-9));
  }
  const TopoAnswer text = shell.trainyard("bench all_gather --on dgx-a100 --gpus 4 --algorithm ring -b 1K -e 1K");
  CHECK(text.out.find("       size         count      type   redop    root     time   algbw   busbw  #wrong") !=
        std::string::npos);
  CHECK(text.out.find("        1024            64     float    none      -1") != std::string::npos);
  CHECK(text.out.find("# Out of bounds values : 0 OK") != std::string::npos);
}

TEST_CASE("bench prints the interval in which a measured time lies", "[bench][coverage]") {
  const BenchShell shell;
  const auto half_width = [&](const std::string& machine, std::size_t size = 1) {
    const json j = shell.rows("all_reduce " + machine + " -b 1M -e 1G -f 1024");
    for (const json& row : j["rows"]) {
      const double low = row["time_interval_us"][0], high = row["time_interval_us"][1], time = row["time_us"];
      CHECK(low < time);
      CHECK(low * high == Approx(time * time).epsilon(1e-9));
    }
    const json& row = j["rows"][size];
    return row["time_interval_us"][1].get<double>() / row["time_us"].get<double>() - 1;
  };
  const double measured = half_width("--on dgx-h100"),
               between = half_width("--on dgx-h100 --nodes 4 --fabric nonblocking");
  CHECK(measured < between);
  CHECK(half_width("--on dgx-h100 --nodes 4 --fabric nonblocking --gpus 8") == Approx(measured));  // in one node
  // The times of an announced machine are scaled from those of others. Their errors are larger.
  CHECK(half_width("--on vr-nvl72 --gpus 8") > measured);
  // Logs of nccl-tests to which the node is anchored narrow the interval at the sizes that they measured, in a node or
  // between nodes.
  const std::string anchored_node = "--set 'nccl.measured={least: 8 B, most: 8 GiB}'",
                    anchored_network = "--set 'nccl.network_measured={least: 8 B, most: 8 GiB}'";
  CHECK(half_width("--on dgx-h100 " + anchored_node, 0) < 0.8 * half_width("--on dgx-h100", 0));  // 1 MiB
  CHECK(half_width("--on dgx-h100 " + anchored_network) == Approx(measured));
  CHECK(half_width("--on dgx-h100 --nodes 4 --fabric nonblocking " + anchored_network) < between);
  CHECK(half_width("--on dgx-h100 --set 'nccl.measured={least: 8 B, most: 64 KiB}'") == Approx(measured));
  CHECK(shell.trainyard("bench all_reduce --on dgx-h100 -b 1M -e 1M " + anchored_node)
            .out.find("# from 8.00 B to 8.00 GiB the node is anchored to collectives of its own") != std::string::npos);
  CHECK(shell.trainyard("bench all_reduce --on dgx-a100 --algorithm ring -b 1M -e 1M").out.find("no interval") !=
        std::string::npos);
  const std::string text = shell.trainyard("bench all_reduce --on dgx-h100 -b 1M -e 1M").out;
  CHECK(text.find("80 % of measured times lie between the columns from and to (in one node, GPUs with a fit: ") !=
        std::string::npos);
  CHECK(text.find("    from       to  algorithm") != std::string::npos);
  CHECK(text.find("# errors differ below 64 KiB, below 64 MiB and above, so from may fall") != std::string::npos);
  // Within one of these ranges a larger message has larger bounds.
  const json range = shell.rows("all_reduce --on dgx-h100 -b 64K -e 32M -f 2");
  for (std::size_t i = 1; i < range["rows"].size(); ++i)
    for (const int end : {0, 1})
      CHECK(range["rows"][i]["time_interval_us"][end] >= range["rows"][i - 1]["time_interval_us"][end]);
  // Simulated messages and groups that share links have no interval: nothing comparable was measured.
  for (const char* other : {"--on dgx-a100 --algorithm ring -b 1M -e 1M", "--on dgx-a100 --groups 0-3,4-7 -b 1M -e 1M"})
    CHECK_FALSE(shell.rows(std::string("all_reduce ") + other)["rows"][0].contains("time_interval_us"));
}

TEST_CASE("a one-sided read takes half a round trip more than a write", "[bench]") {
  const BenchShell shell;
  const std::string two =
      "send_recv --on dgx-a100 --nodes 2 --fabric nonblocking --groups 0+8 --algorithm ring-shift -b 8 -e 8M -f "
      "1048576";
  const json written = shell.rows(two + " --mode put"), read = shell.rows(two + " --mode get");
  CHECK(read["mode"] == "get");
  const double latency = read["rows"][1]["time_us"].get<double>() - written["rows"][1]["time_us"].get<double>();
  CHECK(latency > 0.5);
  CHECK(read["rows"][0]["time_us"].get<double>() - written["rows"][0]["time_us"].get<double>() ==
        Approx(latency).epsilon(1e-9));
  CHECK(written["rows"][0]["time_us"].get<double>() == Approx(latency).epsilon(1e-3));  // 8 bytes take only the latency
  for (const json& row : read["rows"]) CHECK(row["wrong"] == 0);
  shell.refused(two + " --mode push", "--mode push: unknown; known: rendezvous, eager, put, get");
  shell.refused("send_recv --on dgx-a100 --mode get",
                "--mode get: needs single messages, which --fidelity modelled does not have; add --algorithm");
}

TEST_CASE("bench rounds down to 16 bytes a rank, as nccl-tests does", "[bench]") {
  const BenchShell shell;
  for (const std::string operation : {"all_gather", "reduce_scatter", "all_to_all"}) {
    const json j = shell.rows(operation + " --on dgx-a100 --gpus 6 -b 1000 -e 1000");
    CHECK(j["rows"][0]["size_bytes"] == 960);  // 6 x 160
    CHECK(j["rows"][0]["count"] == 40);
  }
}

TEST_CASE("every operation moves the right values by its usual algorithm", "[bench]") {
  const BenchShell shell;
  for (const std::string operation : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
                                      "scatter", "gather", "send_recv", "barrier"})
    for (const std::string reduction : {"sum", "average", "maximum", "product"}) {
      if (reduction != "sum" && operation.find("reduce") == std::string::npos) continue;
      const bool rooted =
          operation == "broadcast" || operation == "reduce" || operation == "scatter" || operation == "gather";
      const json j = shell.rows(operation + " --on dgx-a100 --gpus 5 --fidelity messages -b 4K -e 4K --op " +
                                reduction + (rooted ? " --root 3" : ""));
      CAPTURE(operation, reduction);
      if (operation == "barrier") {  // a barrier has no values
        CHECK(j["rows"][0]["wrong"].is_null());
        const json range = shell.rows("barrier --on dgx-a100 --gpus 5 -b 8 -e 4K");
        REQUIRE(range["rows"].size() == 1);
        CHECK(range["rows"][0]["time_us"] > 0);
        for (const char* none : {"size_bytes", "count", "algbw_GBps", "busbw_GBps"}) CHECK(range["rows"][0][none] == 0);
        continue;
      }
      CHECK(j["rows"][0]["wrong"] == 0);
      CHECK(j["rows"][0]["wrong_in_place"] == 0);
    }
}

TEST_CASE("channels that use one pair of ranks do not mix their messages", "[bench]") {
  const BenchShell shell;
  const json j =
      shell.rows("all_reduce --on dgx-a100 --nodes 2 --fabric nonblocking --algorithm ring --channels 8 -b 8M -e 8M");
  CHECK(j["rows"][0]["wrong"] == 0);
  CHECK(j["rows"][0]["channels"] == 8);
}

TEST_CASE("the links of a node carry a collective of all its GPUs as fast in a cluster of two nodes", "[bench]") {
  const BenchShell shell;
  for (const std::string node : {"dgx-1v", "gh200-4x", "mi300x-8x", "trn1.32xlarge", "frontier", "dgx-h100"}) {
    INFO(node);
    const std::string words = "all_gather --on " + node + " -b 64M -e 64M --no-check";
    const json alone = shell.rows(words);
    const int gpus = alone["ranks"];
    const std::string two = words + " --nodes 2 --fabric nonblocking";
    const json first = shell.rows(fmt::format("{} --gpus {}", two, gpus)),
               second = shell.rows(fmt::format("{} --groups {}-{}", two, gpus, 2 * gpus - 1));
    for (const json& rows : {first, second}) {
      CHECK(rows["rows"][0]["time_us"].get<double>() == Approx(alone["rows"][0]["time_us"].get<double>()));
      CHECK(rows["rows"][0]["channels"] == alone["rows"][0]["channels"]);
    }
  }
  // Half of the GPUs of each node: the links of one node make no ring of them.
  const json halves =
      shell.rows("all_gather --on dgx-1v --nodes 2 --fabric nonblocking --groups 0-3+8-11 -b 64M -e 64M");
  CHECK(halves["rows"][0]["channels"] == 4);
}

TEST_CASE("a step exchanges over the links of a node as fast as bench, in one node and in two", "[bench]") {
  const BenchShell shell;
  shell.write("step.yaml",
              "cluster: {nodes: 1, node: trn1.32xlarge, fabric: nonblocking}\nmodel: gpt2-medium\nsoftware: neuronx\n"
              "plan: {tensor_parallel: 16, micro_batch_size: 1, global_batch_size: 1, precision: bf16}\n");
  const auto exposed = [&](const std::string& words) {
    const TopoAnswer answer = shell.trainyard("run step.yaml --no-what-if --json - " + words);
    REQUIRE(answer.exit == 0);
    const json parts = trainyard::parse_json(answer.out)["breakdown_s"]["exposed_communication"];
    return parts["tensor parallel"].get<double>();
  };
  // 24 blocks with two sums of 1,024 tokens of 1,024 elements in each pass.
  const json sum = shell.rows("all_reduce --on trn1.32xlarge -b 2M -e 2M --no-check")["rows"][0];
  const double alone = exposed("");
  CHECK(alone == Approx(24 * 4 * sum["time_us"].get<double>() * 1e-6).epsilon(0.05));
  CHECK(exposed("--set cluster.nodes=2 --set plan.global_batch_size=2") < alone);  // a part is beside the gradients
}

TEST_CASE("bench with --algorithm auto tries the algorithms, and names the fastest", "[bench]") {
  const BenchShell shell;
  const std::string on = " --on dgx-a100 --nodes 2 --fabric nonblocking -b 1K -e 64M -f 65536";
  const json j = shell.rows("all_reduce --algorithm auto" + on);
  REQUIRE(j["rows"].size() == 2);
  CHECK(j["rows"][0]["algorithm"] != j["rows"][1]["algorithm"]);  // latency decides the one, bandwidth the other
  for (const std::string algorithm : {"ring", "halving-doubling", "direct", "binary-tree"}) {
    const json fixed = shell.rows("all_reduce --algorithm " + algorithm + on);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(j["rows"][i]["time_us"] <= fixed["rows"][i]["time_us"].get<double>() * (1 + 1e-9));
  }
}

TEST_CASE("bench with --algorithm auto takes roots, one rank and flows, and NVLS only if switches add", "[bench]") {
  const BenchShell shell;
  for (const std::string operation : {"reduce", "gather", "scatter", "broadcast"})
    CHECK(shell.rows(operation + " --on dgx-a100 --algorithm auto --root 7 -b 1K -e 1K")["rows"][0]["wrong"] == 0);
  CHECK(shell.rows("all_reduce --on pcie-1 --algorithm auto -b 1M -e 1M")["rows"][0]["algorithm"] == "ring");
  const std::string two = " --nodes 2 --fabric nonblocking --algorithm auto --fidelity flows -b 1M -e 1M";
  CHECK(shell.rows("all_reduce --on dgx-a100" + two)["rows"][0]["time_us"] > 0);
  const std::string large = " --algorithm auto -b 256M -e 256M";
  CHECK(shell.rows("all_reduce --on dgx-h100" + large)["rows"][0]["algorithm"] == "nvls");
  CHECK(shell.rows("all_reduce --on dgx-a100" + large)["rows"][0]["algorithm"] != "nvls");
}

TEST_CASE("bench --compare prints the error of each row of a measured log", "[bench]") {
  const BenchShell shell;
  shell.write(
      "run.log",
      "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20\n"
      "#\n# Using devices\n"
      "#  Rank  0 Group  0 Pid   7000 on     node1 device  0 [0x10] NVIDIA A100-SXM4-80GB\n"
      "#  Rank  1 Group  0 Pid   7000 on     node1 device  1 [0x11] NVIDIA A100-SXM4-80GB\n"
      "#\n#                                                              out-of-place                       in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
      "busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
      "(GB/s)\n"
      "     1048576        262144     float     sum      -1    50.00   20.97   20.97      0    50.00   20.97   "
      "20.97      0\n"
      "     4194304       1048576     float     sum      -1    90.00   46.60   46.60      0    90.00   46.60   "
      "46.60      0\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 30\n");
  const json j = shell.rows("all_reduce --on dgx-a100 --gpus 2 --compare run.log");
  REQUIRE(j["rows"].size() == 2);
  CHECK(j["rows"][0]["size_bytes"] == 1048576);
  CHECK(j["rows"][0]["measured_us"] == Approx(50));
  CHECK(j["rows"][0]["error"] == Approx(j["rows"][0]["time_us"].get<double>() / 50 - 1));
  const TopoAnswer none = shell.trainyard("bench all_reduce --on dgx-a100 --gpus 4 --compare run.log");
  CHECK(none.exit == 2);
  CHECK(none.err == "run.log: has no all-reduce of 4 GPUs; it has all_reduce on 2 GPUs\n");
  shell.write("poem.txt", "Roses are red\n");
  CHECK(shell.trainyard("bench all_reduce --on dgx-a100 --compare poem.txt").exit == 2);
}

TEST_CASE("algorithms whose switches add refuse pieces, and the textbook's ring is checked on equal chunks",
          "[bench]") {
  const BenchShell shell;
  for (const char* machine :
       {"dgx-h100 --nodes 2 --fabric '{base: nonblocking, sharp: true}' --algorithm sharp",
        "dgx-h100 --algorithm sharp", "dgx-h100 --algorithm nvls", "pcie-7 --algorithm collnet-direct"})
    shell.refused(std::string("all_reduce --chunk 64K --on ") + machine,
                  "--chunk 64KiB: it would change nothing in " +
                      std::string(machine).substr(std::string(machine).rfind(' ') + 1) +
                      "; it is for algorithms that pass data on in pieces, such as double-binary-tree");
  for (const char* gpus : {"3", "5", "7"}) {
    const TopoAnswer answer = shell.trainyard(
        std::string("bench all_reduce --on dgx-h100 -b 96 -e 96 --algorithm ring-literal --gpus ") + gpus);
    CAPTURE(gpus, answer.err);
    CHECK(answer.exit != 70);
    CHECK(answer.err.empty());
  }
}

TEST_CASE("bench refuses bad arguments", "[bench]") {
  const BenchShell shell;
  shell.refused("all_redcue --on dgx-a100",
                "unknown collective operation \"all_redcue\"; did you mean \"all-reduce\"?");
  shell.refused("all_reduce", "trainyard bench: on which machine? --on NODE or SCENARIO expected");
  shell.refused("all_reduce --on dgx-a100 --gpus 9", "--gpus 9: dgx-a100 has 8 GPUs; expected 1 to 8");
  shell.refused("all_reduce --on dgx-a100 --gpus -1", "--gpus -1: dgx-a100 has 8 GPUs; expected 1 to 8");
  shell.refused("all_reduce --on dgx-a100 -b 8 -f 1", "-f 1: the factor from one size to the next must be above 1");
  shell.refused("all_reduce --on dgx-a100 -b 8X",
                "-b 8X: expected a size in the form of nccl-tests: 8, 4K, 128M, 8G (powers of 1,024)");
  shell.refused("broadcast --on dgx-a100 --root 8", "--root 8: a broadcast of 8 ranks has the roots 0 to 7");
  shell.refused(
      "all_reduce --on dgx-a100 --groups 0-3,2-5",
      "--groups 0-3,2-5: rank 2 is in two groups: on one stream, one collective waits for the other, and both wait "
      "for ever if ranks disagree on the order");
  shell.refused("all_reduce --on dgx-a100 --groups 0-3,4-6",
                "--groups 0-3,4-6: groups of 4 and 3 ranks; all must be of one size");
  shell.refused("all_reduce --on dgx-a100 --datatype floot",
                "--datatype: unknown type \"floot\"; did you mean \"float\"?");
  shell.refused("all_reduce --on tpu-v3-host",
                "gpu tpu-v3: a TPU has no NCCL; expected an algorithm, for example torus");
  shell.refused("all_reduce --on dgx-a100 --nccl-version two",
                "--nccl-version: \"two\" is no version of NCCL; expected one such as 2.18 or 2.18.3");
  shell.refused("all_reduce --on dgx-a100 --nccl-version 2.18 --algorithm ring",
                "--nccl-version, --no-pxn, --launch: only with NCCL's own choice; leave out --algorithm ring");
  shell.refused("all_reduce --on dgx-a100 --launch threads",
                "--launch: unknown way to launch \"threads\"; did you mean \"thread\"?");
}

TEST_CASE("bench includes the host's time of launches by processes, by one thread or by a graph", "[bench]") {
  const BenchShell shell;
  const auto time = [&shell](const std::string& words) {
    return shell.rows("all_reduce -b 8 -e 8 " + words)["rows"][0]["time_us"].get<double>();
  };
  // A thread takes 4.6 us for each GPU, on a DGX A100 longer than the kernel's 21 us. nccl-tests -g 8 measured 33.7 us
  // (nccl-tests issue 123).
  CHECK(time("--on dgx-a100 --launch thread") == Approx(8 * 4.6));
  CHECK(time("--on dgx-a100") == time("--on dgx-a100 --launch graph"));
  CHECK(time("--on dgx-a100 --gpus 4 --launch thread") == Approx(4 * 4.6));
  // RCCL takes 14.9 us for a launch, on 8 MI300X longer than the kernel. HIP graphs launch by themselves.
  CHECK(time("--on mi300x-8x") == Approx(14.9));
  CHECK(time("--on mi300x-8x --launch graph") < 8);
  CHECK(time("--on mi300x-8x --gpus 1") == Approx(14.9));
  // The header of a log states how its calls were launched.
  const auto beside = [&](const std::string& gpus, const std::string& pid, const std::string& graph) {
    shell.write("run.log",
                "# nThread 1 nGpus " + gpus + " minBytes 8 maxBytes 8 step: 2(factor) iters: 20 validation: 1 graph: " +
                    graph + "\n#  Rank  0 Group  0 Pid 7000 on node1 device 0 [0x10] NVIDIA A100-SXM4-80GB\n" +
                    "#  Rank  1 Group  0 Pid " + pid + " on node1 device 1 [0x11] NVIDIA A100-SXM4-80GB\n" +
                    "#  Rank  3 Group  0 Pid " + pid + " on node1 device 3 [0x11] NVIDIA A100-SXM4-80GB\n" +
                    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n" +
                    "           8             2     float     sum      -1    17.00    0.00    0.00      0\n");
    return shell.rows("all_reduce --on dgx-a100 --gpus 4 --compare run.log")["rows"][0]["time_us"].get<double>();
  };
  const double alone = time("--on dgx-a100 --gpus 4");
  CHECK(beside("4", "7000", "0") == Approx(4 * 4.6));
  CHECK(beside("4", "7000", "20") == alone);
  CHECK(beside("1", "7001", "0") == alone);
}

}  // namespace tools_test_bench
