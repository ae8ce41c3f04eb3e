// Common behaviour of commands: versions, quiet, Markdown, new scenarios, keys of scenarios, user catalogs, installing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/html_pages.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace tools_test_habits {

using namespace trainyard::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

int shell(const TemporaryFolder& folder, const std::string& line) {
  const int status =
      std::system(("cd '" + folder.path().string() + "' && " + line + " >.out 2>.err </dev/null").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("every verb has a help text, and --version names the commit", "[cli][help]") {
  const PageFolder folder;
  CHECK_THAT(folder.trainyard("--version").out,
             Catch::Matchers::Matches("trainyard [0-9.]+ \\([0-9a-f]+\\)\n") || Contains("no commit"));
  for (const std::string& verb : trainyard::verbs().names()) {
    INFO(verb);
    const TopoAnswer help = folder.trainyard(verb + " --help");
    CHECK(help.exit == 0);
    CHECK_THAT(help.out, Contains("trainyard " + verb));
    std::istringstream in(help.out + folder.trainyard("help").out);
    for (std::string line; std::getline(in, line);)
      CHECK((line.starts_with("  trainyard ") || trainyard::characters_of(line) <= 120));
  }
}

TEST_CASE("only fleet, merge, size, sweep and validate write CSV, and no cell from a user's text is a formula",
          "[cli][help]") {
  const PageFolder folder;
  std::set<std::string> verbs;
  for (const std::string& verb : trainyard::verbs().names())
    if (folder.trainyard(verb + " --help").out.find("--csv") != std::string::npos) verbs.insert(verb);
  // validate writes a table of shipped families only (see test_sweep.cpp), size one of networks (test_size_networks.cpp),
  // and fleet one of trainings (test_fleet_verb.cpp).
  CHECK(verbs == std::set<std::string>{"fleet", "merge", "size", "sweep", "validate"});
  const std::string sweep = "sweep small.yaml --set 'software==1+1,@SUM(1),plain' ";
  REQUIRE(folder.trainyard(sweep + "--csv one.csv --points points.jsonl").exit == 0);
  REQUIRE(folder.trainyard("merge points.jsonl --csv merged.csv").exit == 0);
  for (const std::string& table :
       {folder.text("one.csv"), folder.text("merged.csv"), folder.trainyard(sweep + "--csv -").out}) {
    CHECK_THAT(table, Contains("\n'=1+1,") && Contains("\n'@SUM(1),") && Contains("\nplain,"));
    for (const char* begin : {"\n=", "\n@", ",=", ",@", ",\"=", ",\"@"}) CHECK_THAT(table, !Contains(begin));
  }
}

TEST_CASE("--quiet prints nothing if the answer goes to a file, and --markdown prints tables of pipes", "[cli]") {
  const PageFolder folder;
  const TopoAnswer quiet = folder.trainyard("run small.yaml --no-what-if --quiet --json p.json");
  CHECK(quiet.exit == 0);
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
  CHECK_FALSE(folder.text("p.json").empty());
  CHECK(folder.trainyard("run small.yaml --no-what-if --quiet --json -").out == folder.text("p.json"));
  CHECK_THAT(folder.trainyard("run small.yaml --no-what-if --quiet").out, Contains("bottleneck"));
  const std::string nodes = folder.trainyard("list nodes --markdown").out;
  CHECK_THAT(nodes, Contains("|---|") && Contains("| dgx-a100 |"));
  CHECK_THAT(folder.trainyard("list nodes").out, !Contains("|---|"));
}

TEST_CASE("the answer of run has at most 120 columns, and its parts sum to the step", "[cli]") {
  const PageFolder folder;
  const std::string scenarios = TRAINYARD_SOURCE_DIR "/scenarios/";
  for (const std::string name : {"small.yaml", "gpt2-ddp-t4-servers.yaml", "mixtral-ep8.yaml",
                                 "wide-narrow-stages.yaml", "horovod-mnist-2xt4.yaml", "learn-async-vs-sync.yaml"}) {
    CAPTURE(name);
    const TopoAnswer answer = folder.trainyard("run " + (name == "small.yaml" ? name : scenarios + name));
    CHECK(answer.exit == 0);
    CHECK(widest_line(answer.out) <= 120);
    const std::string from_parts = answer.out.substr(answer.out.find("           compute ") + 11);
    std::istringstream parts(from_parts.substr(0, from_parts.find("   (")));
    double sum = 0;
    for (std::string word; parts >> word;)
      if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) sum += std::stod(word);
    const auto j = trainyard::parse_json(
        folder.trainyard("run " + (name == "small.yaml" ? name : scenarios + name) + " --no-what-if --json -").out);
    const double step = j["breakdown_step_time_s"];
    CHECK(sum == Approx(step >= 10 ? step : step * 1e3).epsilon(2e-3));
  }
}

TEST_CASE("explain names what its operations are, in at most 120 columns", "[cli]") {
  const PageFolder folder;
  const TopoAnswer answer = folder.trainyard("explain small.yaml --pieces 1000");
  REQUIRE(answer.exit == 0);
  for (const char* words :
       {"bucket N: the N-th group of gradients", ".dgrad: gradient of the layer's input",
        "the largest sizes that fit into 16.0 GiB", "with a risk below 5 %, and divides the samples"})
    CHECK_THAT(answer.out, Contains(words));
  CHECK(widest_line(answer.out) <= 120);
}

TEST_CASE("explain says that gradients are summed where they are", "[cli]") {
  const PageFolder shell;
  const auto text = [&](const std::string& scenario) { return shell.trainyard("explain " + scenario).out; };
  CHECK_THAT(text("gpt2-xl-ddp-dgx-a100"), Contains("gradients are summed by"));
  CHECK_THAT(text("learn-local-sgd"), Contains("parameters are averaged by") && !Contains("gradients"));
  const auto averages = [&](const std::string& scenario) -> bool {
    return trainyard::parse_json(
        shell.trainyard("run " + scenario + " --no-what-if --json -").out)["all_reduce"]["averages_parameters"];
  };
  CHECK_FALSE(averages("gpt2-xl-ddp-dgx-a100"));
  CHECK(averages("learn-local-sgd"));
  for (const char* scenario : {"learn-topk-1gbit", "generation-llama3-70b-2xh100 --set generation.requests=16"})
    CHECK_THAT(text(scenario), !Contains("are summed by"));
}

TEST_CASE("the answer of a post-training loop explains its parts and counts answers", "[cli]") {
  const PageFolder folder;
  const TopoAnswer answer =
      folder.trainyard("run 65-generate-then-train --no-what-if --set post_training.answer_tokens.variation=0");
  REQUIRE(answer.exit == 0);
  for (const char* words : {" answers/s ", "16 engines (a copy of the model that generates) of 1 GPU",
                            "reload: weights and optimizer states leave", "loop: rewards, preparation of data",
                            "all answers end together", "packs answers with their prompts: 4 × "})
    CHECK_THAT(answer.out, Contains(words));
  CHECK(widest_line(answer.out) <= 120);
}

TEST_CASE("a new scenario can be run, and a bad one is not written", "[cli]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("new a.yaml --model gpt2 --on dgx-a100 --nodes 2 --batch 64").exit == 0);
  CHECK(folder.trainyard("run a.yaml --no-what-if").exit == 0);
  CHECK_THAT(folder.trainyard("new").out, Contains("cluster:\n") && Contains("# trainyard list nodes"));
  CHECK_THAT(folder.trainyard("new a.yaml").err, Contains("a.yaml exists already"));
  CHECK(folder.trainyard("new a.yaml --force").exit == 0);
  for (const char* bad : {"--model gpt22", "--on dgx-a1000", "--batch 63 --nodes 2", "--precision fp17", "--strategy x",
                          "--nodes 0", "--batch 'a: b'"}) {
    INFO(bad);
    CHECK(folder.trainyard(std::string("new bad.yaml ") + bad).exit == 2);
    CHECK_FALSE(fs::exists(folder.path() / "bad.yaml"));
  }
}

TEST_CASE("the reference of scenarios describes all keys that readers look up", "[cli][help]") {
  std::set<std::string> paths;
  for (const trainyard::ScenarioField& field : trainyard::known_scenario_fields()) {
    INFO(field.path);
    CHECK(paths.insert(field.path).second);
    // Keys of the cluster without a description are figures of the hardware. Those have sources instead.
    if (!field.path.starts_with("cluster.")) CHECK_FALSE(field.words.empty());
    if (!field.words.empty()) CHECK((field.words.back() == '.' && field.words.find(' ') != std::string::npos));
  }
  for (const char* path : {"cluster.nodes",
                           "cluster.nodes.N.fabric",
                           "cluster.nodes.N.links.latency",
                           "prices.gpu_hour",
                           "prices.purchase.owned.NAME.fabric",
                           "prices.purchase.owned.NAME.links",
                           "prices.purchase.delivery.NAME.N.after",
                           "prices.reserved.N.months",
                           "prices.spot.interruption",
                           "site.power",
                           "site.pue",
                           "plan.global_batch_size",
                           "plan.pipeline.schedule",
                           "plan.data_parallel.zero_stage",
                           "faults.checkpoint.every",
                           "learn.learning_rate",
                           "input.decode.workers",
                           "cluster.hca.rate",
                           "faults.stragglers.spread",
                           "faults.stragglers.mean",
                           "faults.stragglers.period",
                           "faults.stragglers.busy",
                           "faults.links.link",
                           "faults.links.factor",
                           "faults.links.from",
                           "faults.links.to",
                           "input.cache.size",
                           "faults.failures.N.at",
                           "cluster.taken_out",
                           "plan.training.image.size",
                           "learn.curvatures"}) {
    INFO(path);
    CHECK(paths.contains(path));
  }
  const PageFolder folder;
  const std::string text = folder.trainyard("help scenario").out;
  CHECK_THAT(text, Contains("plan.recompute") && Contains("none | selective | full | operators"));
}

TEST_CASE("the same machine under another name gives the same bytes except for the name", "[cli][catalog][search]") {
  const PageFolder folder;
  const std::string own = "zz-own-box";  // the name has another length and another place in the order of names
  REQUIRE(::setenv("TRAINYARD_PATH", (folder.path() / "mine").c_str(), 1) == 0);
  folder.write("mine/nodes/" + own + ".yaml", file_text(trainyard::shipped_file("models/catalog/nodes/dgx-h100.yaml")));
  const auto answer = [&](const std::string& verb, const std::string& node, const std::string& more) {
    folder.write("small.yaml", "cluster: {nodes: 2, fabric: nonblocking, node: " + node +
                                   "}\nmodel: {base: gpt2, n_layer: 4}\nsoftware: megatron-core\n"
                                   "plan: {strategy: megatron, global_batch_size: 64, seq_length: 512, "
                                   "pipeline: {schedule: 1f1b}}\n");
    const TopoAnswer result = folder.trainyard(verb + " small.yaml --json a.json --write b.yaml --work 300K " + more);
    INFO(result.err);
    REQUIRE(result.exit == 0);
    std::string all = result.out + folder.text("a.json") + folder.text("b.yaml");
    for (std::size_t position = 0; (position = all.find(node, position)) != std::string::npos;)
      all.replace(position, node.size(), "NODE");
    std::ranges::replace(all, '\n', ' ');  // and so do the breaks of lines
    while (all.find("  ") != std::string::npos)
      all.replace(all.find("  "), 2, " ");  // the widths of columns depend on the names
    return all;
  };
  CHECK(answer("plan", own, "") == answer("plan", "dgx-h100", ""));
  const auto sized = [&](const std::string& node) {
    return answer("size", node, "--tokens 1B --days 1 --nodes-of " + node);
  };
  CHECK(sized(own) == sized("dgx-h100"));
  ::unsetenv("TRAINYARD_PATH");
}

TEST_CASE("a user's catalog is found beside the scenario, in TRAINYARD_PATH and in the XDG data folder",
          "[cli][catalog]") {
  const PageFolder folder;
  const std::string node = "base: dgx-a100\ngpu: {memory_capacity: 41 GiB}\n";
  folder.write("own.yaml",
               "cluster: {node: my-node}\nmodel: {base: gpt2, n_layer: 1}\n"
               "plan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 64, precision: fp16}\n");
  const std::string run = "'" TRAINYARD_BINARY "' run own.yaml --no-what-if";
  CHECK(shell(folder, run) == 2);
  CHECK_THAT(folder.text(".err"), Contains("unknown node \"my-node\""));
  const auto check_found = [&](const std::string& file, const std::string& environment) {
    const fs::path written = folder.write(file + "/nodes/my-node.yaml", node);
    CHECK(shell(folder, environment + " " + run) == 0);
    CHECK_THAT(folder.text(".out"), Contains("of 41.0 GiB"));
    fs::remove(written);
  };
  check_found("catalog", "");
  check_found("mine", "TRAINYARD_PATH=nowhere:$PWD/mine");
  check_found("data/trainyard/catalog", "XDG_DATA_HOME=$PWD/data");
  check_found(".local/share/trainyard/catalog", "XDG_DATA_HOME= HOME=$PWD");
  CHECK(shell(folder, run) == 2);
}

TEST_CASE("the program of a package finds the shipped scenarios by name", "[install][.deep]") {
  const PageFolder folder;
  if (shell(folder, "command -v cpack && command -v dpkg-deb") != 0) {
    WARN("skipped: cpack and dpkg-deb are needed");
    return;
  }
  const std::string build = fs::path(TRAINYARD_BINARY).parent_path().string();
  REQUIRE(shell(folder, "cpack --config '" + build + "/CPackConfig.cmake' -G DEB -B \"$PWD/made\"") == 0);
  REQUIRE(shell(folder, "dpkg-deb -x made/*.deb root && mkdir empty") == 0);
  for (const char* words : {"run gpt2-one-a100 --no-what-if", "run scenarios/gpt2-one-a100.yaml --no-what-if",
                            "explain gpt2-one-a100", "list gpus"}) {
    INFO(words);
    CHECK(shell(folder, std::string("cd empty && ../root/usr/bin/trainyard ") + words) == 0);
  }
  // Where pybind11 is installed, packing builds the Python module.
  if (!fs::exists(build + "/python")) return;
  const std::string import = "import trainyard; assert trainyard.run(\"gpt2-one-a100\")[\"step_time_s\"] > 0";
  CHECK(shell(folder, "cd empty && PYTHONPATH=../root/usr/lib/python3/dist-packages python3 -c '" + import + "'") == 0);
}

TEST_CASE("an installed program finds its shipped files, and has a man page and completion", "[install][.deep]") {
  const PageFolder folder;
  const std::string build = fs::path(TRAINYARD_BINARY).parent_path().string();
  REQUIRE(shell(folder, "cmake --install '" + build + "' --prefix \"$PWD/usr\"") == 0);
  fs::rename(folder.path() / "usr", folder.path() / "moved");
  CHECK(shell(folder, "moved/bin/trainyard run moved/share/trainyard/scenarios/gpt2-one-a100.yaml --no-what-if") == 0);
  // In an empty folder, scenarios are found by the names in the help and in the repository.
  fs::create_directory(folder.path() / "empty");
  for (const char* words :
       {"run gpt2-xl-ddp-dgx-a100 --no-what-if", "run gpt2-one-a100 --no-what-if --prices scenarios/prices-example.yml",
        "run scenarios/gpt2-one-a100.yaml --no-what-if", "show scenarios/published/deepseek-v3-2048.yaml --mesh",
        "sweep gpt2-one-a100 --set plan.micro_batch_size=1", "help --html manual"})
    CHECK(shell(folder, std::string("cd empty && ../moved/bin/trainyard ") + words) == 0);
  CHECK(fs::exists(folder.path() / "moved/share/trainyard/scenarios/notebook.ipynb"));
  CHECK(shell(folder, "moved/bin/trainyard show node dgx-a100") == 0);
  CHECK_THAT(folder.text(".out"), Contains("moved/share/trainyard") || !Contains(TRAINYARD_SOURCE_DIR));
  CHECK_THAT(folder.text("moved/share/man/man1/trainyard.1"),
             Contains(".SH TRAINYARD SWEEP") && Contains("\\-\\-shard I/N"));
  if (shell(folder, "command -v lowdown") == 0)
    CHECK_THAT(folder.text("moved/share/man/man7/trainyard-planning-and-cost.7"),
               Contains("\ntrainyard-planning-and-cost \\- Planning and cost\n") && Contains("The fastest plan"));
  CHECK(shell(folder,
              "bash -c 'source moved/share/bash-completion/completions/trainyard; PATH=$PWD/moved/bin:$PATH; "
              "COMP_WORDS=(trainyard sw); COMP_CWORD=1; _trainyard; echo ${COMPREPLY[@]}; "
              "COMP_WORDS=(trainyard sweep --sh); COMP_CWORD=2; _trainyard; echo ${COMPREPLY[@]}; "
              "COMP_WORDS=(trainyard run gpt2-one); COMP_CWORD=2; _trainyard; echo ${COMPREPLY[@]}'") == 0);
  CHECK(folder.text(".out") == "sweep\n--shard\ngpt2-one-a100\n");
}

}  // namespace tools_test_habits
