// Wrong flags and their values end in one clear line and exit code 2, and nothing is written.
#include <fmt/format.h>

#include <iterator>
#include <set>
#include <sstream>

#include "tests/tools/topo_shell.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/topo.hpp"

namespace tools_test_arguments {

namespace {

using namespace trainyard::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

void check_refused(const std::string& arguments, const std::string& error) {
  TopoFolder().check_refused(arguments, error);
}

}  // namespace

TEST_CASE("two outputs of one command cannot go to the same file", "[cli]") {
  check_refused("teach pipeline --svg - --json -",
                "trainyard teach pipeline: --svg - and --json - would both write to stdout");
  check_refused("teach zero --svg - --json -", "trainyard teach zero: --svg - and --json - would both write to stdout");
  check_refused("teach all-reduce --html - --json -",
                "trainyard teach all-reduce: --html - and --json - would both write to stdout");
  check_refused("topo show dgx-1v --dot - --svg -",
                "trainyard topo show: --dot - and --svg - would both write to stdout");
  check_refused("fit nccl x.log --svg - --out -", "trainyard fit: --out - and --svg - would both write to stdout");
  check_refused("run x.yaml --json a --trace a", "trainyard run: --json and --trace would both write a");
  check_refused("sweep x.yaml --json - --csv -", "trainyard sweep: --csv - and --json - would both write to stdout");
}

TEST_CASE("an output that cannot be written is refused before anything is computed", "[cli]") {
  check_refused("teach pipeline --svg none/x.svg", "cannot write none/x.svg: no folder none");
  check_refused("bench all_reduce --on dgx-h100 --json none/x", "cannot write none/x: no folder none");
  check_refused("bench all_reduce --on dgx-h100 --json ''", "--json \"\": the name of a file expected (- is stdout)");
}

TEST_CASE("a flag whose value is no number is refused, and the error names the flag", "[cli]") {
  check_refused("teach pipeline --stages x", "--stages x: a whole number expected");
  check_refused("teach pipeline --stages=",
                "trainyard teach pipeline: --stages: a value expected (trainyard teach pipeline --help)");
  check_refused("teach zero --ranks 2.5", "--ranks 2.5: a whole number expected");
  check_refused("bench all_reduce --on dgx-h100 --gpus 0", "--gpus 0: dgx-h100 has 8 GPUs; expected 1 to 8");
  check_refused("task 3 --check gpt2-one-a10",
                "gpt2-one-a10: no such file, and no scenario of that name comes with the program; did you mean "
                "\"gpt2-one-a100\"?");
  const std::string learn_error = TopoFolder().trainyard("learn gpt2-xl-ddp-dgx-a100").err;
  CHECK(learn_error.find("gpt2-xl-ddp-dgx-a100.yaml:") != std::string::npos);
  CHECK(learn_error.find(": no section `learn`; see") != std::string::npos);
  check_refused("size --model gpt2 --tokens 1B --gpus 8 --days 0", "--days 0: a number above 0 expected, such as 30");
  check_refused("topo design --hosts 10 --ports 1",
                "design: 10 hosts are too many for switches of 1 port in up to 3 levels; the most is 1");
  check_refused("bench all_reduce --on dgx-h100 --gpus 99999999999",
                "--gpus 99999999999: dgx-h100 has 8 GPUs; expected 1 to 8");
  check_refused("explain x.yaml --pieces many", "--pieces many: a whole number expected");
}

TEST_CASE("teach zero refuses bad numbers, and states the memory of each rank", "[cli]") {
  check_refused("teach zero --parameters 1.5", "--parameters 1.5: a whole number expected");
  const TopoFolder shell;
  CHECK(shell.trainyard("teach zero --parameters 1.5e9").exit == 0);
  const auto check_printed = [&shell](const std::string& flags, const std::string& sentence) {
    CHECK_THAT(shell.trainyard("teach zero " + flags).out, Catch::Contains(sentence));
  };
  check_printed("--stage 0", "data parallel: 112 GiB a rank, 16 bytes a parameter\n");
  check_printed("--ranks 1",
                "ZeRO stage 3: 112 GiB a rank, 16 bytes a parameter, as much as data parallel: there is one rank\n");
  check_printed("--stage 3",
                "ZeRO stage 3: 1.75 GiB a rank, 0.25 bytes a parameter, 64 times less than data parallel\n");
}

TEST_CASE("list strategies prints the mechanism and the software of a strategy", "[cli]") {
  const TopoFolder shell;
  const std::string list = shell.trainyard("list strategies").out;
  CHECK_THAT(list, Catch::Matches("(.|\n)*tf-mirrored +all-reduce +0 +plain *\n(.|\n)*"));
}

TEST_CASE("a flag without a value, or given twice, is refused, and the error names it", "[cli]") {
  check_refused("teach pipeline --stages",
                "trainyard teach pipeline: --stages: a value expected (trainyard teach pipeline --help)");
  check_refused("teach zero --ranks 2 --ranks 4",
                "trainyard teach zero: --ranks: given more than once (trainyard teach zero --help)");
}

TEST_CASE("errors about a config and about a link name the file, and a legal name", "[cli]") {
  const TopoFolder shell;
  shell.write("l.json",
              "{\"model_type\": \"llama\", \"hidden_size\": 1024, \"num_hidden_layers\": 2, "
              "\"num_attention_heads\": 8, \"intermediate_size\": 2048}\n");
  shell.write("l.yaml", "cluster: {node: dgx-a100}\nmodel: {config: l.json}\nplan: {micro_batch_size: 1}\n");
  CHECK_THAT(shell.trainyard("run l.yaml").err, Contains("l.json:1:1: ") && Contains("vocab_size"));
  const std::string run = "run gpt2-xl-ddp-dgx-a100 --no-what-if --set ",
                    beginning = "unknown link \"x -> y\"; known: ",
                    end = " and others (`show --machine` prints examples)\n";
  const std::string unknown = shell.trainyard(run + "'faults={links: [{link: x -> y, factor: 0.5}]}'").err;
  const std::size_t name = unknown.find(beginning) + beginning.size();
  REQUIRE(name > beginning.size());
  REQUIRE_THAT(unknown, EndsWith(end));
  // The link that the error names exists, and `show --machine` prints it.
  const std::string link = unknown.substr(name, unknown.size() - end.size() - name);
  CAPTURE(link);
  CHECK(shell.trainyard(run + fmt::format("'faults={{links: [{{link: {}, factor: 0.5}}]}}'", link)).exit == 0);
  CHECK_THAT(shell.trainyard("show gpt2-xl-ddp-dgx-a100 --machine").out, Contains(link));
}

TEST_CASE("the shell completes topics of teach and verbs of topo, and their flags", "[cli][help]") {
  const TopoFolder shell;
  const auto completed = [&shell](const std::string& words) {
    const std::string count = std::to_string(std::ranges::count(words, ' '));
    const std::string script = "source '" TRAINYARD_SOURCE_DIR
                               "/tools/completion.bash'; trainyard() { '" TRAINYARD_BINARY "' \"$@\"; }; COMP_WORDS=(" +
                               words + "); COMP_CWORD=" + count + "; _trainyard; printf '%s\\n' \"${COMPREPLY[@]}\"";
    shell.write("complete.bash", script);
    REQUIRE(std::system(("cd '" + shell.path().string() + "' && bash complete.bash >out").c_str()) == 0);
    std::istringstream in(shell.text("out"));
    return std::set<std::string>(std::istream_iterator<std::string>(in), {});
  };
  std::set<std::string> topics;
  for (const std::string& name : trainyard::teach_topics().names())
    if (!trainyard::teach_topics().find(name, {}).summary.empty()) topics.insert(name);
  CHECK(completed("trainyard teach ''") == topics);
  CHECK(completed("trainyard teach all-r") == std::set<std::string>{"all-reduce"});
  CHECK(completed("trainyard teach pipeline --sch") == std::set<std::string>{"--schedule"});
  const std::vector<std::string> verbs_of_topo = trainyard::topo_verbs().names();
  CHECK(completed("trainyard topo ''") == std::set<std::string>(verbs_of_topo.begin(), verbs_of_topo.end()));
  CHECK(completed("trainyard topo design --ho") == std::set<std::string>{"--hosts", "--hosts-per-rack"});
  CHECK(completed("trainyard sweep --sh") == std::set<std::string>{"--shard"});
}

}  // namespace tools_test_arguments
