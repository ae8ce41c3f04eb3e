// The answers of `plan`, `size` and the screen of `run` for post-training loops.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/loop_plan_report.hpp"
#include "tools/reports/report.hpp"

namespace tools_test_post_training_verbs {

using namespace trainyard;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const char* const kLoop = "scenarios/post-training-llama3-8b-16xh100.yaml";

/// The screen of an asynchronous loop whose stalest answer misses this many steps.
std::string loop_screen(const char* staleness, double most) {
  const Scenario s = read_scenario(shipped_file(kLoop), {{"post_training.generation.nodes", "1"},
                                                         {"post_training.schedule", "asynchronous"},
                                                         {"post_training.staleness", staleness}});
  Result r;
  r.post_training.emplace().most_staleness = most;
  std::string text;
  for (const char c : post_training_screen(s, r))
    if (c != '\n' && c != ' ')
      text += c;
    else if (!text.ends_with(' '))
      text += ' ';
  return text;
}

}  // namespace

TEST_CASE("the screen of a loop says below its first figure that the training half does not fit", "[post-training]") {
  const Scenario s = read_scenario(shipped_file(kLoop));
  Result r;
  r.post_training.emplace().generation_gpus = 16;
  CHECK_THAT(post_training_screen(s, r), !Contains("DOES NOT FIT"));
  r.risk = 1;
  r.memory.peak = Bytes{379.0 * (1U << 30)};
  r.memory.capacity = Bytes{80.0 * (1U << 30)};
  CHECK_THAT(
      post_training_screen(s, r),
      Contains("the training half DOES NOT FIT: 379.0 of 80.0 GiB a GPU; this loop step needs GPUs with more memory"));
}

// Regression: DPO has no rollouts, and so no half that generates.
TEST_CASE("a loop without rollouts has a training step, and no training half", "[post-training]") {
  const test::TopoFolder shell;
  const std::string file = "'" + shipped_file("scenarios/post-training-dpo-llama3-8b-8xh100.yaml").string() + "' ";
  const std::string sets = "--set cluster.node.gpu.memory_capacity=40GiB";
  for (const std::string& words :
       {"run " + file + "--no-what-if " + sets, "explain " + file, "explain --doubt " + file,
        "sweep " + file + "--set plan.micro_batch_size=1,2 --markdown", "compare " + file + file}) {
    CAPTURE(words);
    const test::TopoAnswer answer = shell.trainyard(words);
    CHECK(answer.err.empty());
    CHECK_THAT(answer.out, (Contains("training step") || Contains("of its optimizer steps")) &&
                               !Contains("training half") && !Contains("optimizer step of its training step"));
  }
  const std::string loop = "'" + shipped_file(kLoop).string() + "' ";
  CHECK_THAT(shell.trainyard("explain " + loop).out, Contains("of an optimizer step of its training half: "));
  CHECK_THAT(shell.trainyard("compare " + loop + file).out, Contains("samples/s of the training"));
}

TEST_CASE("a need of memory has one figure on the screen", "[post-training]") {
  const Scenario s = read_scenario(shipped_file("scenarios/post-training-dpo-llama3-8b-8xh100.yaml"),
                                   {{"cluster.node.gpu.memory_capacity", "48 GiB"}});
  const Result r = simulate_here(s, {.critical_path = false});
  REQUIRE(r.post_training->phases.size() == 1);
  const PostTrainingResult::PhaseMemory& phase = r.post_training->phases.front();
  CHECK_FALSE(phase.fits());
  const std::string need =
      fmt::format("{:.1f} of {:.1f} GiB a GPU", phase.needed.value / (1U << 30), phase.usable.value / (1U << 30));
  CHECK_THAT(post_training_screen(s, r),
             Contains("reference DOES NOT FIT: " + need) && Contains("and " + need + " with the policy: too much"));
}

TEST_CASE("the screen explains an answer that is staler than the bound, and none within it", "[post-training]") {
  const char* const words = "the bound limits how many answers start, so a long one may be staler";
  CHECK_THAT(loop_screen("1", 1), !Contains(words));
  CHECK_THAT(loop_screen("1", 2), Contains(words));
  // With half a step, half of the answers start a whole step early.
  CHECK_THAT(loop_screen("0.5", 1), !Contains(words));
  CHECK_THAT(loop_screen("0.5", 2), Contains(words));
}

TEST_CASE("the tables of a loop have at most 120 columns", "[post-training]") {
  const Scenario s = read_scenario(shipped_file(kLoop), {{"post_training.generation.nodes", "1"}});
  Result r;
  r.post_training.emplace();
  PostTrainingSplit& split = r.splits.emplace_back();
  split.error =
      "the model and the optimizer states of this layout do not fit into the memory of the nodes that train, "
      "and no other layout divides the batch";
  const std::string text = post_training_screen(s, r);
  CHECK(test::widest_line(text.substr(text.find("splits of the nodes"))) <= 120);
  // Splits that were not tried are named.
  CHECK_THAT(text, !Contains("left out"));
  const Scenario large =
      read_scenario(shipped_file(kLoop), {{"cluster.nodes", "8"}, {"post_training.generation.nodes", "2"}});
  CHECK_THAT(post_training_screen(large, r),
             Contains("  of 1 to 7 nodes; left out: numbers that the plan or the engines refuse\n"));
  r.splits.resize(5, r.splits.front());
  CHECK_THAT(post_training_screen(large, r),
             Contains("left out: numbers that the plan or the engines refuse, and all but 5 of the others\n"));

  LoopAnswer answer;
  answer.currency = "USD";
  answer.has_failures = true;
  for (const char* node : {"dgx-h100", "gb200-nvl72"}) {
    LoopRow& row = answer.rows.emplace_back();
    row.node = node;
    row.nodes = 128;
    row.generation_nodes = 112;
    row.schedule = "asynchronous";
    row.likely_samples = {{123.4, 234.5}};
  }
  const std::string table = loop_plan_screen(answer, 2);
  CHECK_THAT(table, Contains("112 of 128") && Contains("USD/M: USD a million answers"));
  CHECK(test::widest_line(table) <= 120);
}

TEST_CASE("size --post-training finds the fewest nodes of each type, and writes the cheapest as a scenario",
          "[post-training]") {
  const test::TopoFolder shell;
  const std::string loop = std::string("'") + shipped_file(kLoop).string() + "'";
  // A scenario that lies in another folder than its prices has them too.
  shell.write("prices.yml", "{gpu_hour: {h100-sxm5-80gb: 2.5, h200-sxm-141gb: 3}, currency: EUR}");
  std::filesystem::create_directory(shell.path() / "there");
  const test::TopoAnswer answer = shell.trainyard(
      "size --post-training --samples-per-second 8 --set post_training.prompts=16 --nodes-of dgx-h100,dgx-h200 "
      "--confidence 90% --prices prices.yml --json a.json --write there/best.yaml");
  CHECK(answer.err.empty());
  CHECK(answer.exit == 0);
  CHECK_THAT(answer.out, Contains("fewest") && Contains("dgx-h100, ") && Contains("dgx-h200, ") && Contains("90 %"));
  const json all = json::parse(shell.text("a.json"));
  const json& best = all.at("rows")[0];
  CHECK(all.at("confidence") == 0.9);
  CHECK(best.at("meets") == true);
  CHECK(best.at("samples_per_s_interval")[0] >= 7.9);
  const test::TopoAnswer again = shell.trainyard("run there/best.yaml --no-what-if --json -");
  CHECK(json::parse(again.out).at("post_training").at("samples_per_s").get<double>() ==
        Approx(best.at("samples_per_s").get<double>()));

  shell.check_refused("size --post-training " + loop,
                      "size --post-training: --samples-per-second expected, the samples that the loop needs");
  shell.check_refused("size --post-training --samples-per-second 8 --confidence 99% " + loop,
                      "--confidence 99%: 50 % to 97 % expected, which 18 measured loops can show");
  shell.check_refused("size " + loop + " --days 3",
                      "size " + shipped_file(kLoop).string() +
                          ": the scenario has post_training; expected --post-training with --samples-per-second, or a "
                          "scenario of a whole training");
}

TEST_CASE("size names the fewest nodes with training one step off, each type that fails, and a refused option",
          "[post-training]") {
  const test::TopoFolder shell;
  const test::TopoAnswer answer = shell.trainyard(
      "size --post-training --samples-per-second 30 --nodes-of dgx-h100,dgx-a100 --most-nodes 6 --json a.json");
  CHECK(answer.err.empty());
  const json all = json::parse(shell.text("a.json"));
  REQUIRE_FALSE(all.at("one_step_off").empty());
  const json& staler = all.at("one_step_off")[0];
  CHECK(staler.at("nodes") < all.at("rows")[0].at("nodes"));
  CHECK(staler.at("samples_per_s") >= 30);
  const json again = json::parse(shell
                                     .trainyard(fmt::format("run '{}' --no-what-if --set cluster.nodes={} --set "
                                                            "post_training.generation.nodes={} --set "
                                                            "post_training.schedule=one-step-off --json -",
                                                            shipped_file(kLoop).string(), staler.at("nodes").get<int>(),
                                                            staler.at("generation_nodes").get<int>()))
                                     .out);
  CHECK(again.at("post_training").at("samples_per_s").get<double>() ==
        Approx(staler.at("samples_per_s").get<double>()));
  CHECK_THAT(answer.out, Contains("one step off (post_training.schedule)") && Contains("dgx-a100: "));
  shell.check_refused("size --post-training --samples-per-second 8 --budget 5",
                      "size --post-training: --budget is for a whole training; expected --samples-per-second, and of "
                      "--model, --set, --confidence, --nodes-of, --most-nodes, --prices, --json and --write what you "
                      "need");
}

TEST_CASE("run requires that each model of a loop fits", "[post-training]") {
  const test::TopoFolder shell;
  const std::string run = "run '" + shipped_file(kLoop).string() + "' --no-what-if --require fits --set ";
  const test::TopoAnswer reward = shell.trainyard(run + "'post_training.reward={model: llama-3.1-405b}'");
  CHECK(reward.exit == 1);
  CHECK_THAT(reward.out, Contains("reward DOES NOT FIT: ") && !Contains("the training half DOES NOT FIT"));
  const test::TopoAnswer critic = shell.trainyard(run + "'post_training.critic={model: llama-3-70b}'");
  CHECK(critic.exit == 1);
  CHECK_THAT(critic.out, Contains("training of policy and critic DOES NOT FIT: "));
  CHECK(shell.trainyard(run + "'post_training.reward={model: llama-3-8b}'").exit == 0);
}

TEST_CASE("size joins the nodes of a loop on one node by a stated network", "[post-training]") {
  const test::TopoFolder shell;
  const test::TopoAnswer answer =
      shell.trainyard("size --post-training --samples-per-second 20 --most-nodes 3 --json a.json '" +
                      shipped_file("scenarios/post-training-llama3-8b-8xh100.yaml").string() + "'");
  CHECK(answer.err.empty());
  CHECK_THAT(answer.out,
             Contains("several nodes are joined by nonblocking (cluster.fabric)") && !Contains("missing key"));
  const json all = json::parse(shell.text("a.json"));
  CHECK(all.at("assumed_fabric") == "nonblocking");
  CHECK(std::ranges::any_of(all.at("rows"), [](const json& row) {
    return row.at("nodes") == 2 && row.at("generation_nodes") == 0 && row.at("error") == "";
  }));
}

TEST_CASE("the trace of a loop has the parts of each pool, which end with the step", "[post-training]") {
  const test::TopoFolder shell;
  CHECK(
      shell
          .trainyard("run '" + shipped_file(kLoop).string() +
                     "' --no-what-if --set post_training.generation.nodes=1 --trace loop.trace --trace-ranks 0 --json "
                     "loop.json")
          .exit == 0);
  std::map<std::string, double> ends;
  const json trace = json::parse(shell.text("loop.trace"));
  for (const json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X" && event.at("pid").get<std::int64_t>() >= 1'000'000'000)
      ends[event.at("name")] = event.at("ts").get<double>() + event.at("dur").get<double>();
  const double step = json::parse(shell.text("loop.json")).at("post_training").at("step_time_s");
  CHECK(ends.at("weights") == Approx(step * 1e6).epsilon(1e-9));
  CHECK(ends.at("generation") < ends.at("training"));
}

TEST_CASE("the page of a loop draws both pools", "[post-training][pages]") {
  const test::TopoFolder shell;
  CHECK(shell
            .trainyard("run '" + shipped_file(kLoop).string() +
                       "' --no-what-if --set post_training.generation.nodes=1 --html page.html")
            .exit == 0);
  CHECK(shell
            .trainyard("run '" + shipped_file(kLoop).string() +
                       "' --no-what-if --set post_training.generation.nodes=1 --set "
                       "post_training.generation.hybrid=true --html hybrid.html")
            .exit == 0);
  CHECK_THAT(shell.text("hybrid.html"), Contains("\"both\"") && Contains("both: 'GPUs do both'"));
  const std::string page = shell.text("page.html");
  CHECK_THAT(page, Contains("what each pool of GPUs does in a step") && Contains("samples_per_s_interval"));
  // The verdict begins with the loop, and its figures come before those of the training half.
  CHECK_THAT(page, Contains("section('Verdict', ...ofLoop, ") && Contains("const cards = [...ofLoop, "));
}

TEST_CASE("the screen of a loop names what limits the generation, and a size its fastest rows",
          "[post-training][cli]") {
  const test::TopoFolder shell;
  const auto screen = [&](const std::string& more) {
    return shell.trainyard("run '" + shipped_file(kLoop).string() + "' --no-what-if --set " + more).out;
  };
  const std::string tools = "'post_training.tools={calls: 2, wait: 3 s, tokens: 0, sandboxes: ";
  CHECK_THAT(screen(tools + "64}'"), Contains("but sandboxes limit the generation)"));
  CHECK_THAT(screen(tools + "4096}'"), !Contains("limit the generation"));
  CHECK_THAT(screen("'post_training.generation.speculation={tokens: 3, acceptance: 0.7}'"),
             Contains("\ndrafts     a further layer drafts 3 tokens, of which the model accepts 70.0 % each"));
  const std::string size =
      shell
          .trainyard("size '" + shipped_file(kLoop).string() +
                     "' --post-training --samples-per-second 100000 --nodes-of dgx-h100 --most-nodes 3")
          .out;
  // The most answers a second that the verdict names are those of the first row.
  const std::string verdict = "no tried number of nodes has 100000 answers/s; ";
  const std::size_t begin = size.find(verdict) + verdict.size();
  const std::string most = size.substr(begin, size.find(' ', begin) - begin);
  const std::size_t row = size.find('\n', size.find("answers/s\n", size.find("   nodes  "))) + 1;
  CHECK_THAT(size.substr(row, size.find('\n', row) - row), Contains("  " + most + " ("));
}

}  // namespace tools_test_post_training_verbs
