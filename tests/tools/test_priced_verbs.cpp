// Verbs that take a file of prices, and the delivery of a bought cluster.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/src/reading/training_length.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_priced_verbs {

using namespace trainyard;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

constexpr const char* kScenario =
    "cluster: {node: dgx-a100}\nmodel: gpt2\n"
    "plan: {strategy: megatron, global_batch_size: 64, micro_batch_size: 1, seq_length: 1024, precision: bf16, "
    "training: {tokens: 1e11}}\nsoftware: megatron-core\n";
constexpr const char* kPrices =
    "gpu_hour: {a100-sxm4-80gb: 2}\npurchase: {node: {dgx-a100: 100000}, kwh: 0.1, delivery: {dgx-a100: [{nodes: 1, "
    "after: 12 d}, {after: 90 d}]}}\n";

std::string long_days(double days) { return long_time(Seconds{days * 86400}); }

}  // namespace

TEST_CASE("plan, explain and compare with prices have the energy and the costs that run has", "[costs][compare]") {
  const test::TopoFolder shell;
  shell.write("s.yaml", kScenario);
  shell.write("p.yml", kPrices);
  const test::TopoAnswer plan =
      shell.trainyard("plan s.yaml --brief --work 2M --prices p.yml --json plan.json --write best.yaml");
  CHECK(plan.err.empty());
  CHECK(shell.trainyard("run best.yaml --no-what-if --prices p.yml --json run.json").err.empty());
  const json planned = json::parse(shell.text("plan.json")), run = json::parse(shell.text("run.json"));
  for (const char* key : {"step", "per_million", "training"})
    CHECK(planned.at("money").at(key).get<double>() == Approx(run.at("money").at(key).get<double>()));
  for (const char* key : {"step_J", "gpu_power_W", "pue"})
    CHECK(planned.at("energy").at(key).get<double>() == Approx(run.at("energy").at(key).get<double>()));
  CHECK_THAT(plan.out, Contains("the best plan costs\n") && Contains("a million tokens") && Contains("tokens/J"));
  // A scenario with prices needs no flag.
  shell.write("priced.yaml", std::string(kScenario) + "prices: p.yml\n");
  CHECK_THAT(shell.trainyard("plan priced.yaml --brief --work 2M").out, Contains("the best plan costs\n"));
  CHECK_THAT(shell.trainyard("plan s.yaml --brief --work 2M").out, !Contains("costs"));
  const test::TopoAnswer compared = shell.trainyard("compare best.yaml best.yaml --prices p.yml");
  CHECK(compared.err.empty());
  CHECK_THAT(compared.out,
             Contains("cost of a million tokens") && Contains("tokens per joule") && Contains("purchase"));
  const test::TopoAnswer explained = shell.trainyard("explain best.yaml --prices p.yml");
  CHECK(explained.err.empty());
  CHECK_THAT(explained.out, Contains("USD a million tokens"));
  CHECK_THAT(shell.trainyard("explain best.yaml --layers --prices p.yml").err, Contains("--prices: not with --layers"));
}

TEST_CASE("an error in a file of prices names the file and the line, in each verb that takes one", "[costs][cli]") {
  const test::TopoFolder shell;
  shell.write("s.yaml", kScenario);
  shell.write("bad.yml", "gpu_hour: {a100-sxm4-80gb: -2}\n");
  shell.write("typo.yml", "gpu_hour: {a100-sxm4-80g: 2}\n");
  for (const char* verb : {"run s.yaml", "explain s.yaml", "compare s.yaml s.yaml",
                           "sweep s.yaml --set cluster.nodes=1", "plan s.yaml --brief --work 1M"}) {
    CAPTURE(verb);
    const std::string bad = shell.trainyard(std::string(verb) + " --prices bad.yml").err,
                      typo = shell.trainyard(std::string(verb) + " --prices typo.yml").err;
    CHECK_THAT(bad, Contains("bad.yml:1:28: prices.gpu_hour.a100-sxm4-80gb: -2 is out of range") && !Contains("--set"));
    CHECK_THAT(typo, Contains("typo.yml:1:12: prices.gpu_hour: unknown node or GPU \"a100-sxm4-80g\"; did you mean "
                              "\"a100-sxm4-80gb\"?") &&
                         !Contains("--set"));
  }
}

TEST_CASE("flags of explain that an answer does not use are refused", "[cli]") {
  const test::TopoFolder shell;
  shell.write("s.yaml", kScenario);
  for (const char* answer : {"--layers", "--limits", "--doubt"})
    for (const char* flag : {"--factor", "--pieces"}) {
      CAPTURE(answer, flag);
      CHECK_THAT(shell.trainyard(std::string("explain s.yaml ") + answer + " " + flag + " 3").err,
                 Contains(std::string(flag) + ": not with --layers, --batch, --limits or --doubt"));
    }
  CHECK_THAT(shell.trainyard("launch \"torchrun t.py\" --request \"-1 us\"").err,
             Contains("--request -1 us: a time of at least 0 s expected"));
}

TEST_CASE("cost and energy of tokens are columns of every table, and agree with run", "[costs][jobs][fleet]") {
  const test::TopoFolder shell;
  shell.write("s.yaml", kScenario);
  shell.write("p.yml", kPrices);
  const auto answer_of = [&shell](const std::string& words) {
    const test::TopoAnswer ended = shell.trainyard(words + " --json a.json");
    INFO(ended.err);
    REQUIRE(ended.exit == 0);
    return std::pair(ended.out, json::parse(shell.text("a.json")));
  };
  const auto near = [](const json& a, const json& b) { return a.get<double>() == Approx(b.get<double>()); };
  answer_of("plan s.yaml --brief --work 2M --write best.yaml");
  const auto [plan_text, plan] = answer_of("plan s.yaml --brief --work 2M --prices p.yml");
  const auto [run_text, run] = answer_of("run best.yaml --no-what-if --prices p.yml");
  const json& owned = run.at("money").at("ownership");
  const json& best = plan.at("best").at(0);
  CHECK(near(best.at("money_per_million"), run.at("money").at("per_million")));
  CHECK(near(best.at("ownership_per_million"), owned.at("per_million")));
  CHECK(near(best.at("ownership_total"), owned.at("total")));
  CHECK(near(best.at("tokens_per_J"), run.at("tokens_per_J")));
  CHECK_THAT(plan_text, Contains("tokens/J  a million") && Contains("owned"));
  CHECK_THAT(run_text, Contains("4 years ") && Contains("break-even buying costs less than on demand"));
  const auto [size_text, size] =
      answer_of("size s.yaml --days 900 --gpus 8 --nodes-of dgx-a100 --work 100K --purchase --prices p.yml");
  const json& row = size.at("rows").at(0);
  const double tokens = row.at("tokens");
  CHECK(row.at("money_per_million").get<double>() ==
        Approx(1e6 * row.at("ownership").at("training").get<double>() / tokens));
  CHECK(row.at("tokens_per_J").get<double>() == Approx(tokens / row.at("energy_J").get<double>()));
  CHECK_THAT(size_text, Contains("USD a million") && Contains("to own for 4 years"));
  for (const json& choice : size.at("choices"))
    CHECK(choice.at("money_per_million").get<double>() == Approx(1e6 * choice.at("money").get<double>() / tokens));
  const auto [sweep_text, sweep] = answer_of("sweep best.yaml --set plan.global_batch_size=64 --prices p.yml");
  CHECK(near(sweep.at("points").at(0).at("ownership_total"), owned.at("total")));
  CHECK_THAT(answer_of("compare best.yaml best.yaml --prices p.yml").first,
             Contains("owning for all years of depreciation"));
  // A fleet pays for idle nodes, too: one training that has the cluster a part of the time pays for all of it.
  shell.write("f.yaml",
              "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nfleet: {horizon: 900 d}\ntrainings:\n"
              "- {name: one, nodes: 1, scenario: best.yaml}\n");
  const auto [fleet_text, fleet] = answer_of("fleet f.yaml --prices p.yml");
  const json& group = fleet.at("groups").at(0);
  CHECK(group.at("money_per_million").get<double>() ==
        Approx(1e6 * group.at("cost").get<double>() / 1e11).epsilon(1e-3));
  CHECK(group.at("tokens_per_J").get<double>() > 0.8 * run.at("tokens_per_J").get<double>());
  CHECK_THAT(fleet_text, Contains("a M tokens") && Contains(" to own for 4 years"));
  // A job alone on a cluster costs what run has; beside others it costs more by its slowdown.
  shell.write("j.yaml",
              "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\njobs:\n- {name: a, nodes: 1, scenario: "
              "best.yaml}\n- {name: b, nodes: 1, scenario: best.yaml}\n");
  const auto [share_text, share] = answer_of("share j.yaml --steps 3 --prices p.yml");
  for (const json& job : share.at("jobs")) {
    CHECK(job.at("alone_money_per_million").get<double>() ==
          Approx(run.at("money").at("per_million").get<double>()).epsilon(0.01));
    CHECK(job.at("money_per_million").get<double>() ==
          Approx(job.at("alone_money_per_million").get<double>() * (1 + job.at("slowdown_share").get<double>())));
  }
  CHECK(share.at("currency") == "USD");
  CHECK_THAT(share_text, Contains("a million: USD"));
  CHECK_THAT(shell.trainyard("share j.yaml --prices none.yml").err, Contains("none.yml"));
}

TEST_CASE("run and compare say when a training on bought nodes ends, with their delivery", "[costs][compare]") {
  const test::TopoFolder shell;
  shell.write("s.yaml", kScenario);
  shell.write("p.yml", kPrices);
  const std::string one = "--set plan.data_parallel.size=8 --set plan.micro_batch_size=8 --prices p.yml";
  const test::TopoAnswer run = shell.trainyard("run s.yaml --no-what-if --json r.json " + one);
  CHECK(run.err.empty());
  const json answer = json::parse(shell.text("r.json"));
  const double days = answer.at("training_time_s").get<double>() / 86400;
  CHECK(answer.at("money").at("ownership").at("delivery_s") == 12 * 86400);
  CHECK_THAT(run.out, Contains("all nodes are there after " + long_days(12)) &&
                          Contains("the training ends after " + long_days(12 + days)));
  const test::TopoAnswer compared = shell.trainyard("compare s.yaml s.yaml " + one);
  CHECK_THAT(compared.out, Contains("delivery of all nodes") && Contains("after " + long_days(12 + days)));
}

TEST_CASE("--set changes an item of a list of prices by its index, as it does in other sections", "[costs]") {
  const test::TopoFolder shell;
  shell.write("s.yaml", kScenario);
  const auto prices = [](double idle, int days) {
    return fmt::format(
        "gpu_hour: {{a100-sxm4-80gb: 2}}\nreserved: [{{months: 1, gpu_hour: {{a100-sxm4-80gb: 1.5}}, idle: {}}}, "
        "{{months: 12, gpu_hour: {{a100-sxm4-80gb: 1}}}}]\npurchase: {{node: {{dgx-a100: 100000}}, delivery: "
        "{{dgx-a100: [{{nodes: 1, after: {} d}}, {{after: 90 d}}]}}}}\n",
        idle, days);
  };
  shell.write("p.yml", prices(1, 12));
  shell.write("q.yml", prices(0.25, 20));
  const std::string run = "run s.yaml --no-what-if --set plan.data_parallel.size=8 --json - --prices ";
  const json written = json::parse(shell.trainyard(run + "q.yml").out).at("money");
  const std::string sets = " --set prices.reserved.0.idle=0.25 --set 'prices.purchase.delivery.dgx-a100.0.after=20 d'";
  CHECK(json::parse(shell.trainyard(run + "p.yml" + sets).out).at("money") == written);
  CHECK(json::parse(shell.trainyard(run + "p.yml").out).at("money") != written);
  shell.check_refused(run + "p.yml --set prices.reserved.2.idle=0.5",
                      "--set prices.reserved.2.idle: \"2\" is no item of a list of 2 (counted from 0)");
  CHECK_THAT(shell.trainyard(run + "p.yml --set prices.reserved.0.idel=0.5").err, Contains("did you mean \"idle\"?"));
}

TEST_CASE("a scenario that size writes into another folder finds the prices, and one year has no plural",
          "[costs][size]") {
  const test::TopoFolder shell;
  shell.write("s.yaml", kScenario);
  shell.write("p.yml", "purchase: {node: {dgx-a100: 100000}, years: 1}\n");
  std::filesystem::create_directory(shell.path() / "other");
  const test::TopoAnswer sized = shell.trainyard(
      "size s.yaml --days 900 --gpus 8 --nodes-of dgx-a100 --work 100K --purchase --by total-cost --prices p.yml "
      "--write "
      "other/w.yaml --json a.json");
  CHECK(sized.err.empty());
  CHECK_THAT(sized.out, Contains("to own for 1 year") && Contains("\n1 year ") && !Contains("1 years"));
  const test::TopoAnswer run = shell.trainyard("run other/w.yaml --no-what-if --json r.json");
  CHECK(run.err.empty());
  CHECK_THAT(run.out, Contains("1 year 100,000"));
  CHECK(json::parse(shell.text("r.json")).at("money").at("ownership") ==
        json::parse(shell.text("a.json")).at("cheapest").at("ownership"));
}

TEST_CASE("the deadline that would do is met, and a price by the GPU is one of a GPU", "[size][costs]") {
  const test::TopoFolder shell;
  shell.write("s.yaml", kScenario);
  shell.write("p.yml", "gpu_hour: {a100-sxm4-80gb: 2}\npurchase: {gpu: {a100-sxm4-80gb: 20000}}\n");
  shell.write("n.yml", "gpu_hour: {a100-sxm4-80gb: 2}\npurchase: {node: {dgx-a100: 160000}}\n");
  const auto size = [&shell](const std::string& days, const std::string& prices) {
    return shell.trainyard("size s.yaml --tokens 1B --gpus 8 --nodes-of dgx-a100 --work 100K --prices " + prices +
                           " --json a.json --days " + days);
  };
  CHECK(size("1e-4", "p.yml").exit == 1);
  const json late = json::parse(shell.text("a.json")).at("verdict");
  const std::string changes = late.at("changes"), mark = "a deadline of ";
  const std::size_t begin = changes.find(mark);
  REQUIRE(begin != std::string::npos);
  const double days = std::stod(changes.substr(begin + mark.size()));
  REQUIRE(days < 0.1);
  const test::TopoAnswer met = size(fmt::format("{}", days), "p.yml");
  CHECK(met.exit == 0);
  CHECK(size(fmt::format("{}", days * 0.98), "p.yml").exit == 1);
  CHECK_THAT(late.at("reason").get<std::string>(), !Contains("takes 0.0 days"));
  CHECK_THAT(met.out, Contains(" a GPU; 20,000"));
  CHECK_THAT(size(fmt::format("{}", days), "n.yml").out, Contains(" a node; 160,000"));
}

TEST_CASE("limits of size that no question may have are refused with what is legal", "[size]") {
  const test::TopoFolder shell;
  const auto error_of = [&shell](const std::string& flag) {
    return shell.trainyard("size --model gpt2 --tokens 1B --days 3 --nodes-of dgx-a100 " + flag).err;
  };
  for (const char* share : {"1.2", "90", "10%", "0.3", "x"})
    CHECK_THAT(error_of(fmt::format("--confidence {}", share)),
               Contains(share) && Contains("expected, such as 90% or 0.9") && !Contains("such as 10%"));
  for (const char* money : {"0", "x"})
    CHECK_THAT(error_of(fmt::format("--budget {}", money)), Contains("such as 500k or 20M"));
  CHECK_THAT(error_of("--budget 1e16"), Contains("--budget 1e16: at most 1e15 expected"));
  for (const char* money : {"500k", "20M", "2e6"})
    CHECK_THAT(error_of(fmt::format("--budget {}", money)), Contains("--budget needs prices"));
}

}  // namespace tools_test_priced_verbs
