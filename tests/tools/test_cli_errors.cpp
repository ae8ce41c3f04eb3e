// Errors of the command are one line that names the place, the flag or the nearest name.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/replaced_text.hpp"
#include "tests/small_scenario.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_cli_errors {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

namespace {

/// A temporary folder with a good scenario, in which commands run.
struct Shell : TopoFolder {
  Shell() { write("good.yaml", trainyard::test::kSmallScenario); }
  void change(const std::string& from, const std::string& to) const {
    write("bad.yaml", trainyard::test::with_replaced(trainyard::test::kSmallScenario, from, to));
  }
};

}  // namespace

TEST_CASE("bad scenarios end in exit code 2 and one line with the place and the error", "[cli]") {
  const Shell shell;
  const auto check_changed = [&shell](const std::string& from, const std::string& to, const std::string& error) {
    shell.change(from, to);
    shell.check_refused("run bad.yaml --json out.json --trace out.trace", error);
  };
  check_changed("nodes: 2", "nods: 2", "bad.yaml:2:3: unknown key \"nods\" in cluster; did you mean \"nodes\"?");
  check_changed("nodes: 2", "nodes: 2\n  nodes: 3",
                "bad.yaml:3:3: duplicate key \"nodes\"; first given at bad.yaml:2:3");
  check_changed("nodes: 2", "nodes: two", "bad.yaml:2:10: cluster.nodes: \"two\" is not a whole number");
  check_changed("nodes: 2", "nodes: -1", "bad.yaml:2:10: cluster.nodes: -1 is too small; the least is 1");
  check_changed("t4-server", "t4-sever", "bad.yaml:3:9: unknown node \"t4-sever\"; did you mean \"t4-server\"?");
  check_changed("fp16", "bf61", "bad.yaml:10:14: plan.precision: unknown value \"bf61\"; did you mean \"bf16\"?");
  check_changed("  fabric: nonblocking\n", "  fabric: nonblocking\n  hca: {rate: 0 Gbit/s}\n",
                "bad.yaml:5:15: node t4-server: hca.rate: \"0 Gbit/s\" must be greater than 0");
  check_changed(
      "  fabric: nonblocking\n", "  fabric: nonblocking\n  hca: {rate: 50 Gbit}\n",
      "bad.yaml:5:15: node t4-server: hca.rate: \"50 Gbit\": unknown unit \"Gbit\"; expected a rate such as 400 Gbit/s "
      "or 25 GB/s");
  check_changed(
      "size: 16", "size: 12",
      "bad.yaml:7:22: plan.global_batch_size: 12 is not a multiple of 8 (micro_batch_size 1 x 8 ranks); nearest: 8 or "
      "16");
  check_changed("plan:\n", "plan:\n  data_parallel: 9\n",
                "bad.yaml:7:18: plan.data_parallel.size: 9 ranks, but the cluster has 8 GPUs (2 nodes x 4)");
  check_changed("node: t4-server", "node: {base: t4-server, hca: ~}",
                "bad.yaml:3:9: cluster.node: t4-server has no HCA; 2 nodes of it cannot reach each other");
  check_changed("plan:", "plan: [",
                "bad.yaml:6:7: a \"[\" that is never closed; \"]\" expected, or \",\" before line 8");
}

TEST_CASE("bad command lines end in exit code 2 with the nearest name", "[cli]") {
  const Shell shell;
  shell.check_refused("rum good.yaml", "trainyard: unknown verb \"rum\"; did you mean \"run\"?");
  shell.check_refused("run good.yaml --jsn x", "trainyard run: unknown flag --jsn; did you mean \"--json\"?");
  shell.check_refused(
      "anchor good.yaml --measured family.yaml",
      "anchor: good.yaml would not be used: the runs of family.yaml bring their own scenarios, and --set changes "
      "them");
  shell.check_refused("run good.yam", "good.yam: no such file; did you mean \"good.yaml\"?");
  shell.check_refused("run ''", "\"\": no such file");
  shell.check_refused("run good.yaml --prices nosuch.yml", "--prices nosuch.yml: no such file");
  shell.check_refused("run mixtral-ep8 --set plan.expert_parallel.size=16",
                      "--set plan.expert_parallel.size: plan.expert_parallel: expert parallelism over 16 ranks: they "
                      "must divide the 8 experts of mixtral-8x7b; nearest: 8");
  shell.check_refused("merge nosuch", "nosuch: cannot be read: no such file");
  shell.check_refused("run .", ".: is a folder, not a file");
  shell.check_refused("run good.yaml more.yaml",
                      "trainyard run: unexpected argument \"more.yaml\" (trainyard run --help)");
  shell.check_refused("run good.yaml --json nowhere/x.json", "cannot write nowhere/x.json: no folder nowhere");
  shell.check_refused(
      "run good.yaml --fold check --json x.json",
      "--json: not with --fold check, which compares two runs and gives no answer; expected --fold auto "
      "or off");
  shell.check_refused("run good.yaml --trace .", "cannot write .: it is a folder");
  shell.check_refused(
      "run good.yaml --set plan.micro_batch_siz=2",
      "--set plan.micro_batch_siz: unknown key \"micro_batch_siz\" in plan; did you mean \"micro_batch_size\"?");
  shell.check_refused("run good.yaml --set plan.micro_batch_size",
                      "--set plan.micro_batch_size: expected path=value, such as plan.micro_batch_size=8");
  shell.check_refused("list gpuz", "trainyard list: unknown kind \"gpuz\"; did you mean \"gpus\"?");
  shell.check_refused("show gpu h100-sxm5-90gb",
                      "trainyard show: unknown gpu \"h100-sxm5-90gb\"; did you mean \"h100-sxm5-80gb\"?");
  shell.check_refused("show gpux t4", "trainyard show: \"gpux\" is no kind of entry; did you mean \"gpu\"?");
  shell.check_refused(
      "show good.yaml",
      "trainyard show: expected one of --schedule, --mesh, --machine, --fold, --rank N with a scenario (trainyard "
      "show --help)");
  shell.check_refused("show good.yaml --schedule --rank 8", "--rank 8: the scenario has ranks 0 to 7");
  shell.check_refused("show good.yaml --schedule --rank -1", "--rank -1: the scenario has ranks 0 to 7");
  shell.check_refused("sweep good.yaml --csv - --json -",
                      "trainyard sweep: --csv - and --json - would both write to stdout");
  shell.check_refused("sweep good.yaml --csv t.csv --set plan.global_batch_size=12,20",
                      "all 2 points are impossible; the first: --set plan.global_batch_size: 12 is not a multiple of 8 "
                      "(micro_batch_size 1 x 8 ranks); nearest: 8 or 16");
  shell.check_refused(
      "fit roofline",
      "trainyard fit: the folder of measured tables is missing: give --data DIR, or set TRAINYARD_DATA");
  shell.check_refused("fit roofline --data nowhere", "trainyard fit: --data nowhere: no such folder");
  shell.check_refused("fit training --gpu t4",
                      "trainyard fit training: --gpu: only with fit roofline, fit kernels, fit nccl");
  shell.check_refused(
      "fit all --json all.json",
      "trainyard fit all: --json: only with fit roofline, fit kernels, fit nccl, fit training, fit nccl --networks, "
      "fit nccl --launch");
}

TEST_CASE("a broken entry of the catalog is one clear error", "[cli]") {
  const Shell shell;
  fs::copy(fs::path(TRAINYARD_SOURCE_DIR) / "models" / "catalog", shell.path() / "catalog",
           fs::copy_options::recursive);
  std::ofstream(shell.path() / "catalog" / "gpus" / "broken.yaml")
      << "peak: {fp16: 1 TFLOP/s}\nmemory_bandwith: 1 GB/s\nmemory_capacity: 1 GiB\n";
  setenv("TRAINYARD_CATALOG", (shell.path() / "catalog").c_str(), 1);
  shell.check_refused("list gpus",
                      (shell.path() / "catalog/gpus/broken.yaml").string() +
                          ":2:1: unknown key \"memory_bandwith\" in gpu broken; did you mean \"memory_bandwidth\"?");
  setenv("TRAINYARD_CATALOG", "nowhere", 1);
  shell.check_refused("list gpus", "nowhere: no such catalog folder (TRAINYARD_CATALOG names it)");
  unsetenv("TRAINYARD_CATALOG");
}

TEST_CASE("errors name the flag whose value is wrong", "[cli]") {
  const TopoFolder shell;
  const std::string plan = "plan --model gpt2 --on dgx-a100 --batch 64 ";
  CHECK_THAT(shell.trainyard(plan + "--budget soon").err, StartsWith("--budget: \"soon\" is not a time such as"));
  CHECK_THAT(shell.trainyard(plan + "--vary tensor").err, StartsWith("--vary tensor: expected path=value"));
  CHECK_THAT(shell.trainyard("learn learn-workers --compare rate").err, StartsWith("--compare rate: expected path="));
  CHECK_THAT(shell.trainyard("bench all_reduce --on dgx-a200").err, StartsWith("--on: unknown node \"dgx-a200\"; did"));
  CHECK_THAT(shell.trainyard("bench all_reduce --on dgx-a100 --op mean").err,
             StartsWith("--op: unknown reduction \"mean\""));
  CHECK_THAT(shell.trainyard("size --model gpt2 --tokens 1B --days 3 --nodes-of dgx-a200").err,
             StartsWith("--nodes-of: unknown node \"dgx-a200\"; did"));
  const std::string loop = "size --post-training --samples-per-second 8 ";
  CHECK_THAT(shell.trainyard(loop + "--nodes-of dgx-a200").err,
             StartsWith("--nodes-of: unknown node \"dgx-a200\"; did"));
  CHECK_THAT(shell.trainyard(loop + "gpt2-one-a100").err,
             Contains("gpt2-one-a100.yaml:") && Contains("missing key post_training"));
  CHECK_THAT(shell.trainyard("topo design --hosts 0 --ports 8").err, StartsWith("--hosts 0: 1 or more expected"));
  CHECK_THAT(shell.trainyard("show dgx-a200").err, StartsWith("dgx-a200: no such file, and no scenario of that name"));
  CHECK_THAT(shell.trainyard("help scenario nvlnk").err, StartsWith("trainyard help scenario: no key has \"nvlnk\""));
  const std::string keys = shell.trainyard("help scenario all_reduce").out;
  CHECK_THAT(keys, Contains("plan.data_parallel.all_reduce.channels") && !Contains("plan.recompute"));
}

TEST_CASE("flags that nothing would heed, and values in the wrong place, are refused with their flag", "[cli]") {
  const TopoFolder shell;
  const std::string bench = "bench all_reduce --on dgx-h100 -b 1M -e 1M ";
  for (const auto& [words, error] :
       {std::pair<std::string, const char*>{bench + "--channels 4", "--channels 4: the fitted model of NCCL"},
        {bench + "--chunk 128K", "--chunk 128K: the fitted model of NCCL"},
        {bench + "--fidelity modelled --algorithm ring", "--algorithm ring: the fitted model of NCCL"},
        {bench + "--chunk 128K --algorithm chain", "--chunk 128KiB: it would change nothing in chain"},
        {bench + "--torus [2,4]", "--torus [2,4]: the fitted model of NCCL"},
        {bench + "--torus [2,4] --algorithm ring",
         "--torus [2,4]: it would change nothing in ring; it is for algorithms of a torus"},
        {bench + "--torus [1,8] --algorithm ring", "--torus [1,8]: it would change nothing"},
        {"bench all_gather --on dgx-h100 --op average", "--op average: all-gather reduces nothing"},
        {"topo design --hosts 64 --ports 8 --hosts-per-rack 8 --racks-per-row 0", "--racks-per-row 0: "},
        {"sweep naive-vs-gpipe --set plan.recompute=none,full --top 0", "--top 0: "},
        {"sweep naive-vs-gpipe --set plan.recompute=none,full --baseline 0", "--baseline 0: "},
        {"task 1 --solution --check mine.yaml", "trainyard task: --solution: not with --check"},
        {"task 1 --hint 1 --to mine.yaml", "trainyard task: --to: not with --hint"},
        {"task --hint 1", "trainyard task: --hint: the number or name of a task expected"},
        {"teach all-gather --op average",
         "--op average: all-gather reduces nothing; all-reduce, reduce-scatter and reduce do"},
        {"show node dgx-h100 --rank 3",
         "trainyard show node: --schedule, --mesh, --machine, --fold and --rank are for"},
        {"size --model gpt2 --tokens 1B --days 3 --site 2MWh", "--site 2MWh: expected a power such as 2 MW"}}) {
    const TopoAnswer answer = shell.trainyard(words);
    CAPTURE(words, answer.err);
    CHECK(answer.exit == 2);
    CHECK_THAT(answer.err, StartsWith(error));
  }
  CHECK(shell.trainyard(bench + "--algorithm chain-pipelined --chunk 128K").exit == 0);
  for (const char* reader : {"torus", "torus-2d", "auto"})
    for (const char* lengths : {"[2,4]", "[1,8]"})
      CHECK(shell.trainyard(bench + "--algorithm " + reader + " --torus " + lengths).exit == 0);
  CHECK(shell.trainyard("topo design --hosts 64 --ports 8 --hosts-per-rack 8 --cable-lengths 300,1").exit == 0);
}

TEST_CASE("an error about a searched plan names the plan or --vary, not a flag that has another field",
          "[search][cli]") {
  const TopoFolder shell;
  const auto error_of = [&shell](const std::string& vary) {
    return shell.trainyard("plan --model gpt2-xl --on dgx-a100 --batch 64 --vary " + vary).err;
  };
  CHECK_THAT(error_of("plan.tensor_parallel=3"), Contains("has the values of --vary"));
  CHECK_THAT(error_of("plan.tensor_parallel=2,4"),
             Contains("tensor parallelism over 2 ranks: they must divide the 25 attention heads") &&
                 Contains("the first: tensor 2") && !Contains("--batch"));
  CHECK_THAT(error_of("plan.foo=1"), Contains("--vary plan.foo: unknown key \"foo\" in plan") && !Contains("--set"));
}

}  // namespace tools_test_cli_errors
