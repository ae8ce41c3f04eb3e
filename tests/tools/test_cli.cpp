// The command as a user sees it: exit codes, and files that are written or not.
#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/small_scenario.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_cli {

using nlohmann::json;
namespace fs = std::filesystem;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

namespace {

/// A temporary folder with a good scenario, in which commands run.
struct Shell : TopoFolder {
  Shell() { write("good.yaml", trainyard::test::kSmallScenario); }
};

}  // namespace

TEST_CASE("--json - prints JSON and nothing else, the same bytes every time", "[cli]") {
  const Shell shell;
  for (const std::string command :
       {"run good.yaml --json -", "explain good.yaml --json -", "list --json -", "explain good.yaml --layers --json -",
        "show hca connectx-6 --json -", "show switches quantum --json -", "show storage samsung-pm9a3 --json -",
        "show good.yaml --schedule --all --json -", "show good.yaml --mesh --json -",
        "show good.yaml --machine --json -", "show node dgx_a100 --json -",
        "sweep good.yaml --json - --set plan.global_batch_size=8,9,16"}) {
    INFO(command);
    const TopoAnswer first = shell.trainyard(command), second = shell.trainyard(command);
    CHECK(first.exit == 0);
    CHECK(first.out == second.out);
    CHECK_FALSE(json::parse(first.out).empty());
    if (command.find("sweep") == std::string::npos) CHECK(first.err.empty());
  }
  const json answer = json::parse(shell.trainyard("run good.yaml --json -").out);
  for (const char* key :
       {"scenario", "step_time_s", "samples_per_s", "tokens_per_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu",
        "hfu", "breakdown_s", "memory_bytes", "fits", "bottleneck", "traffic_bytes", "fold", "events", "sources"})
    CHECK(answer.contains(key));
  CHECK_FALSE(answer.contains("wall_s"));
}

TEST_CASE("fit nccl writes an entry, a picture and JSON for a log, and refuses files that are no logs", "[cli][nccl]") {
  const Shell shell;
  const std::string table = "'" TRAINYARD_SOURCE_DIR "/scenarios/measured/tables/nccl.csv'";
  const TopoAnswer fit =
      shell.trainyard("fit nccl " + table + " --gpu a100-sxm4-80gb --out a.yaml --svg a.svg --json a.json");
  CHECK(fit.exit == 0);
  CHECK(fit.out.find("all_reduce, 8 GPUs: bus bandwidth in GB/s against size") != std::string::npos);
  CHECK(fit.out.find("error on the held-out sizes (odd log2) 132 rows: median") != std::string::npos);
  CHECK(fit.out.find(": 3 protocols fitted\n") != std::string::npos);
  std::string few = "gpu,nccl_version,op,num_gpus,message_bytes,latency_us\n";
  for (int power = 20; power < 24; ++power)
    few += fmt::format("t4,2.20,all_reduce,8,{},{}\n", 1 << power, 20 << (power - 20));
  shell.write("few.csv", few);
  CHECK(shell.trainyard("fit nccl few.csv --gpu t4")
            .out.find(": 1 protocol fitted, as there are too few sizes to tell three apart\n") != std::string::npos);
  CHECK(shell.text("a.yaml") == trainyard::test::file_text(TRAINYARD_SOURCE_DIR "/models/catalog/nccls/a100-sxm.yaml"));
  CHECK(shell.text("a.svg").starts_with("<svg"));
  const json fits = json::parse(shell.text("a.json")).at("fits");
  REQUIRE(fits.size() == 1);
  CHECK(fits[0].at("held_out_error").at("median_abs_error") < 0.04);
  CHECK(fits[0].at("points").size() == 252);
  shell.check_refused(
      "fit nccl good.yaml",
      "good.yaml:10:1: no nccl-tests log: expected its table, headed \"size count type redop root time algbw busbw\", "
      "or nccl.csv's columns (gpu, nccl_version, op, num_gpus, message_bytes, latency_us)");
  shell.check_refused("fit nccl",
                      "trainyard fit nccl: which file? Give nccl.csv or a log of nccl-tests (trainyard fit --help)");
  shell.check_refused("fit nccl nowhere.log", "nowhere.log: cannot be read: no such file");
  shell.check_refused(
      "fit nccl " + table + " --svg x.svg",
      "trainyard fit nccl: fits of several GPUs in one file: give --gpu NAME, or for --out a folder that exists");
  shell.check_refused("fit nccl " + table + " --gpu t4",
                      "trainyard fit nccl: no rows of gpu t4 in " TRAINYARD_SOURCE_DIR
                      "/scenarios/measured/tables/nccl.csv");
  shell.check_refused("fit rooflin", "trainyard fit: cannot fit \"rooflin\"; did you mean \"roofline\"?");
  shell.check_refused(
      "fit roofline x.csv",
      "trainyard fit roofline: FILE: only with fit nccl, fit kernels, fit nccl --networks, fit nccl --launch");
}

TEST_CASE("run names the source of measured compute times, and how long the training takes", "[cli][measured-step]") {
  const Shell shell;
  const std::string run = "run '" TRAINYARD_SOURCE_DIR "/scenarios/horovod-mnist-2xt4.yaml' --no-what-if";
  const std::string text = shell.trainyard(run).out;
  CHECK(text.find("compute    measured 17.2 ms at batch 256 on one device") != std::string::npos);
  CHECK(text.find("training   24 epochs × 250 steps: ") != std::string::npos);
  CHECK(
      text.find(
          "trust      the compute time is measured, its division among layers modelled; communication is simulated") !=
      std::string::npos);
  const json answer = json::parse(shell.trainyard(run + " --json -").out);
  CHECK(answer.at("training_steps") == 6000);
  CHECK(answer.at("training_time_s").get<double>() == Approx(6000 * answer.at("step_time_s").get<double>()));
  CHECK(answer.at("compute_measured").at("source").get<std::string>().find("single node") != std::string::npos);
  CHECK(shell.trainyard(run + " --set plan.micro_batch_size=192 --set plan.global_batch_size=384")
            .out.find("compute    interpolated between 128 and 256 13.9 ms at batch 192") != std::string::npos);
}

TEST_CASE("the line of traffic says that modelled trees count as rings, and says it of nothing else", "[cli]") {
  const TopoFolder shell;
  const std::string run = "run '" TRAINYARD_SOURCE_DIR "/scenarios/gpt2-xl-ddp-dgx-a100.yaml' --no-what-if";
  const std::string words = "summed over all messages; trees count as rings with their bytes out of a node\n";
  CHECK_THAT(shell.trainyard(run).out, Catch::Matchers::Contains(words));
  const std::string ring = shell.trainyard(run + " --set plan.data_parallel.all_reduce=ring").out;
  CHECK_THAT(ring, Catch::Matchers::Contains("summed over all messages\n"));
}

TEST_CASE("run --sources lists the sources of figures", "[cli]") {
  const Shell shell;
  const std::string run = "run '" TRAINYARD_SOURCE_DIR "/scenarios/gpt2-xl-ddp-dgx-a100.yaml' --no-what-if";
  CHECK(shell.trainyard(run).out.find("datasheet") == std::string::npos);
  const std::string sources = shell.trainyard(run + " --sources").out;
  CHECK(sources.find("(unverified)") != std::string::npos);
  CHECK(sources.find("datasheet") != std::string::npos);
}

TEST_CASE("list and show print tables of the catalog and of a scenario", "[cli]") {
  const Shell shell;
  const TopoAnswer gpus = shell.trainyard("list gpu");
  CHECK(gpus.exit == 0);
  CHECK(gpus.out == shell.trainyard("list gpus").out);
  CHECK(shell.trainyard("list gpus cpus").out == gpus.out + "\n" + shell.trainyard("list cpus").out);
  CHECK(gpus.out.find("a100-sxm4-80gb   312 TFLOP/s") != std::string::npos);
  const std::string networks = shell.trainyard("list networks").out;
  const std::string line = networks.substr(networks.find("gpt2-xl "), 60);
  CHECK(line.find("1558 M") != std::string::npos);
  CHECK(networks.find("deepseek-v3              671 B         37.55 B") != std::string::npos);
  CHECK(networks.find("3 x 224 x 224  8.18 GFLOP") != std::string::npos);
  const std::string resnet = shell.trainyard("show network resnet50").out;
  CHECK(resnet.find("bottleneck 3 … bottleneck 5    512 x 28 x 28   280064 x 3") != std::string::npos);
  CHECK(resnet.find("25557032") != std::string::npos);
  CHECK(shell.trainyard("show network mlp-mnist --json -").out.find("\"parameters\": 401920") != std::string::npos);
  CHECK(networks.find("512 + 128 tokens") != std::string::npos);
  const std::string t5 = shell.trainyard("show network t5-base").out;
  CHECK(t5.find("decoder block 1 … decoder block 11    128 x 768") != std::string::npos);
  CHECK(t5.find("active parameters") != std::string::npos);
  CHECK(t5.find("123786163") != std::string::npos);
  // The network of a scenario, by its file.
  const std::string of_scenario = shell.trainyard("show network good.yaml --set model=t5-base").out;
  CHECK(of_scenario == t5);
  CHECK(shell.trainyard("show network vit-b-16").out.find("block 0 … block 11  197 x 768") != std::string::npos);
  const std::string experts = shell.trainyard("run good.yaml --set model=qwen3-30b-a3b").out;
  CHECK(experts.find("6 FLOP an active parameter and token") != std::string::npos);
  CHECK(shell.trainyard("list models").out == networks);
  CHECK(shell.trainyard("show gpu h100-sxm").out == shell.trainyard("show gpu h100-sxm5-80gb").out);
  CHECK(shell.trainyard("show gpu v100").err.find("5 names begin so: v100-pcie-16gb, ") != std::string::npos);
  // The network of a user's file: its sizes come from the file, and a layer of blocks has the number of its block.
  shell.write("rows.yaml",
              "model_type: operators\nname: rows\ntokens: 1\nsizes: {width: 8}\nlayers:\n"
              "  - repeat: 3\n    layers:\n      - layer: block\n        width: width\n"
              "        operators: [linear: {in: width, out: width}]\n"
              "  - layer: head\n    operators: [cross_entropy: {classes: width}]\n");
  const std::string rows = shell.trainyard("show network rows.yaml").out;
  CHECK(rows.find("[1] given in rows.yaml\n") != std::string::npos);
  CHECK(rows.find("one sample of 1 token, ") != std::string::npos);
  CHECK(rows.find("block 0 … block 2  ") != std::string::npos);
  const TopoAnswer entry = shell.trainyard("show gpu t4");
  CHECK(entry.exit == 0);
  CHECK(entry.out.find("unverified") != std::string::npos);
  CHECK(entry.out.find("no source") == std::string::npos);
  CHECK(shell.trainyard("show gpu t4 --set memory_capacity=\"16 GiB\"").out.find("given by --set memory_capacity") !=
        std::string::npos);
  CHECK(shell.trainyard("show good.yaml --schedule").out.find("more operations (--all shows them)") !=
        std::string::npos);
  CHECK(shell.trainyard("show good.yaml --mesh").out.find("node1/gpu3") != std::string::npos);
  CHECK(shell.trainyard("show good.yaml --machine").out.find("between nodes: rank 0 to rank 4") != std::string::npos);
  for (const char* verb : {"run", "explain", "show", "list", "sweep", "fit"}) {
    const TopoAnswer help = shell.trainyard(std::string(verb) + " --help");
    CHECK(help.exit == 0);
    CHECK(help.out.find("Example:") != std::string::npos);
  }
}

TEST_CASE("the trace is JSON in microseconds with named processes and threads", "[cli]") {
  const Shell shell;
  REQUIRE(
      shell.trainyard("run good.yaml --trace t.json --json a.json --no-what-if --set plan.collectives=messages").exit ==
      0);
  const json trace = json::parse(shell.text("t.json"));
  const double step_us = json::parse(shell.text("a.json"))["step_time_s"].get<double>() * 1e6;
  std::set<std::string> processes, threads;
  double last = 0;
  bool bytes = false;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      processes.insert(event.at("args").at("name").get<std::string>());
    if (event.at("ph") == "M" && event.at("name") == "thread_name")
      threads.insert(event.at("args").at("name").get<std::string>());
    if (event.at("ph") != "X") continue;
    CHECK(event.at("dur").get<double>() >= 0);
    last = std::max(last, event.at("ts").get<double>() + event.at("dur").get<double>());
    bytes = bytes || event.value("args", json::object()).contains("bytes");
  }
  CHECK(processes.size() == 8);
  CHECK(threads == std::set<std::string>{"compute", "send", "receive"});
  CHECK(last == Approx(step_us).epsilon(1e-6));
  CHECK(bytes);
}

TEST_CASE("a trace has the requested ranks, and a trace that is too large to open is refused", "[cli]") {
  const Shell shell;
  CHECK(shell.trainyard("run good.yaml --trace all.json --no-what-if").exit == 0);
  CHECK(shell.trainyard("run good.yaml --trace two.json --trace-ranks 2-3 --no-what-if").exit == 0);
  std::set<int> actors;
  const json trace = json::parse(shell.text("two.json"));
  for (const json& event : trace["traceEvents"]) actors.insert(event["pid"].get<int>());
  CHECK(actors == std::set<int>{2, 3});
  CHECK(json::parse(shell.text("all.json"))["traceEvents"].size() >
        3 * json::parse(shell.text("two.json"))["traceEvents"].size());
  shell.check_refused("run good.yaml --trace t.json --trace-ranks 7-8",
                      "--trace-ranks 7-8: the scenario has ranks 0 to 7");
  shell.check_refused("run good.yaml --trace t.json --trace-ranks all",
                      "--trace-ranks all: a range of ranks such as 0-7, or one rank expected");
  shell.check_refused("run good.yaml --trace-ranks 0-1", "--trace-ranks: only with --trace");
  const TopoAnswer large = shell.trainyard("run good.yaml --trace t.json --set plan.global_batch_size=40000");
  CHECK(large.exit == 2);
  CHECK(large.err.find("at most 2 million are written. Expected fewer ranks: --trace-ranks 0-") != std::string::npos);
}

TEST_CASE("a picture needs an existing rank", "[cli]") {
  const Shell shell;
  CHECK(shell.trainyard("run good.yaml --picture p.svg --rank 7 --no-what-if").exit == 0);
  CHECK(shell.text("p.svg").starts_with("<svg"));
  CHECK(shell.trainyard("run good.yaml --picture q.svg --rank 8").exit == 2);
  CHECK(shell.trainyard("run good.yaml --picture nowhere/q.svg").exit == 2);
  CHECK_FALSE(std::filesystem::exists(shell.path() / "q.svg"));
}

TEST_CASE("a sweep writes a complete table; an interrupted sweep can be resumed", "[cli]") {
  const Shell shell;
  const std::string small = "sweep good.yaml --set plan.global_batch_size=8,16,12 --csv t.csv";
  const TopoAnswer good = shell.trainyard(small);
  CHECK(good.exit == 0);
  CHECK(good.out.empty());
  CHECK(good.err.starts_with("1 of 3 points is impossible; the first: "));
  shell.check_refused("sweep good.yaml --set plan.global_batch_size=12,20",
                      "all 2 points are impossible; the first: --set plan.global_batch_size: 12 is not a multiple of 8 "
                      "(micro_batch_size 1 x 8 ranks); nearest: 8 or 16");
  CHECK(shell.files() == std::set<std::string>{"good.yaml", "t.csv"});
  CHECK(shell.trainyard("sweep good.yaml --set plan.global_batch_size=8,16,12").out == shell.text("t.csv"));

  std::string list = "1";
  for (int i = 2; i <= 100; ++i) list += "," + std::to_string(i);
  const std::string large = "sweep good.yaml --set plan.seq_length=" + list + " --csv large.csv";
  const std::string command = shell.line(large);
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  const fs::path journal = shell.path() / "large.csv.partial";
  for (int i = 0; i < 500 && (!fs::exists(journal) || fs::file_size(journal) < 500); ++i) usleep(5000);
  kill(pid, SIGINT);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(shell.text(".err").find("run the same command again to resume (large.csv.partial keeps them)") !=
        std::string::npos);
  CHECK(fs::exists(journal));
  CHECK_FALSE(fs::exists(shell.path() / "large.csv"));
  CHECK(shell.trainyard(large).exit == 0);
  CHECK_FALSE(fs::exists(journal));
  const std::string resumed = shell.text("large.csv");
  CHECK(std::count(resumed.begin(), resumed.end(), '\n') == 101);
  CHECK(shell.trainyard(large).exit == 0);
  CHECK(shell.text("large.csv") == resumed);
}

TEST_CASE("a sweep tries every cut of the layers into pipeline stages", "[cli]") {
  const Shell shell;
  const std::string stages = "sweep good.yaml --set model.n_layer=4 --set plan.pipeline_parallel=2 --csv - ";
  const TopoAnswer cuts = shell.trainyard(stages + "--set plan.pipeline.layers=all");
  CHECK(cuts.exit == 0);
  CHECK(cuts.out == shell.trainyard(stages + "--set \"plan.pipeline.layers=[1, 3],[2, 2],[3, 1]\"").out);
  CHECK(std::count(cuts.out.begin(), cuts.out.end(), '\n') == 4);
}

TEST_CASE("if a plan does not fit, screen and JSON show what would fit", "[cli]") {
  const Shell shell;
  const std::string tight =
      "run good.yaml --no-what-if --set cluster.gpu.memory_capacity=\"1.05 GiB\" "
      "--set plan.micro_batch_size=32 --set plan.global_batch_size=256";
  const TopoAnswer screen = shell.trainyard(tight);
  CHECK(screen.exit == 0);
  CHECK(screen.out.find("largest micro-batch that fits with a risk below 5 %, and divides the samples") !=
        std::string::npos);
  CHECK(screen.out.find("AT RISK, likely runs out of memory with a probability of ") != std::string::npos);
  const json roomy = json::parse(shell.trainyard("run good.yaml --no-what-if --json -").out);
  CHECK(roomy["fits"] == true);
  CHECK_FALSE(roomy.contains("largest_micro_batch_size"));
  const json small = json::parse(
      shell.trainyard("run good.yaml --no-what-if --set cluster.gpu.memory_capacity=\"100 MiB\" --json -").out);
  CHECK(small["fits"] == false);
  CHECK(small["largest_micro_batch_size"] == 0);
  CHECK(small["largest_num_hidden_layers"] == 0);
  const json why = json::parse(shell.trainyard("explain good.yaml --json -").out);
  CHECK(why["largest_micro_batch_size"] > 1);
  CHECK(why["safe_micro_batch_size"] >= 1);
  CHECK(why["largest_num_hidden_layers"] > 2);
  const std::string faults =
      " --set plan.training=\"{time: 5 d}\" --set faults=\"{failures: {mtbf: {node: 20 h}, runs: 2}, restart: {detect: "
      "1 h}}\"";
  const json failing = json::parse(shell.trainyard("explain good.yaml --json -" + faults).out);
  CHECK(failing["goodput"] < 1);
  CHECK(failing["what_if"][0]["goodput"] < 1);
  CHECK(failing["failure_what_if"][0]["goodput"] > failing["goodput"]);
  const TopoAnswer prescribed = shell.trainyard("explain good.yaml --set plan.step_time=\"2 s\"" + faults);
  CHECK(prescribed.exit == 0);
  CHECK(prescribed.out.find("all failures 2 x rarer") != std::string::npos);
  const json layers = json::parse(shell.trainyard("explain good.yaml --layers --json -").out);
  double share = 0;
  int count = 0;
  for (const json& layer : layers["layers"]) {
    share += layer["share"].get<double>();
    count += layer["count"].get<int>();
  }
  CHECK(count == 4);  // embedding, two blocks, head
  CHECK(std::abs(share * layers["step_time_s"].get<double>() / layers["layers_s"].get<double>() - 1) < 1e-9);
  // A hybrid has a row for each kind, however often its layers change.
  shell.write("hybrid.yaml",
              "cluster: {node: dgx-h100}\nmodel: nemotron-3-super\nplan: {precision: bf16, "
              "micro_batch_size: 1, data_parallel: {zero_stage: 3}, recompute: full}\n");
  const json hybrid = json::parse(shell.trainyard("explain hybrid.yaml --layers --json -").out);
  std::string rows;
  for (const json& layer : hybrid["layers"])
    rows += fmt::format("{} x {}\n", layer["layer"].get<std::string>(), layer["count"].get<int>());
  CHECK(rows ==
        "embedding x 1\nmamba 0, … mamba 86 x 40\nexperts 1, … experts 87 x 40\n"
        "attention 7, … attention 78 x 8\nhead x 1\n");
  CHECK_THAT(shell.trainyard("explain hybrid.yaml --layers").out,
             Catch::Contains("a comma: layers of other costs lie between"));
}

TEST_CASE("a small network has its number of parameters, and its memory in bytes", "[cli]") {
  const std::string text = Shell()
                               .trainyard(
                                   "run resnet50-4xv100-pcie --set software=plain --set 'model={mlp: {widths: [5, 23, "
                                   "16, 1]}}' --no-what-if")
                               .out;
  for (const char* part :
       {"mlp (539 parameters) in ", "\n           parameters 2,156 │ gradients 2,156 │ ", " kB a step, "})
    CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("list optimizers counts the bytes of vectors and matrices that run counts", "[cli]") {
  using namespace trainyard;
  const TopoFolder shell;
  const TopoAnswer list = shell.trainyard("list optimizers --json -");
  REQUIRE(list.exit == 0);
  const json listed = json::parse(list.out).at("optimizers");
  CHECK(listed.size() == optimizers().size());
  const auto kept = [&](const std::string& optimizer, const char* key) -> double {
    for (const json& row : listed)
      if (row.at("name") == optimizer) return row.at(key);
    return 0;
  };
  for (const Optimizer& optimizer : optimizers()) {
    CAPTURE(optimizer.name);
    const auto run = [&](int width) {
      const Scenario s =
          read_scenario_text(fmt::format("cluster: {{node: {{base: dgx-a100, gpu: {{count: 1}}}}}}\n"
                                         "model: {{mlp: {{widths: [4096, {}, 4096]}}}}\n"
                                         "plan: {{micro_batch_size: 1, precision: bf16, optimizer: {}}}\n",
                                         width, optimizer.name),
                             "mlp.yaml");
      return simulate(s).memory.optimizer.value;
    };
    const double in_matrices = kept(optimizer.name, "kept_bytes_in_matrix") * 2 * 4096 * 4096,
                 in_vectors = kept(optimizer.name, "kept_bytes_per_parameter") * 2 * 4096;
    CHECK(run(4096) == Approx(in_matrices + in_vectors).epsilon(1e-9));
    // A matrix of another form has other factors of its sides.
    const bool has_factors = optimizer.side_products > 0;
    const double states = kept(optimizer.name, "kept_bytes_per_parameter") - (optimizer.orthogonal_steps > 0 ? 4 : 0);
    CHECK(run(2048) == Approx((states + (has_factors ? 8 * (2 + 0.5) : 0)) * 2 * 2048 * 4096 +
                              kept(optimizer.name, "kept_bytes_per_parameter") * (2048 + 4096))
                           .epsilon(1e-9));
  }
}

}  // namespace tools_test_cli
