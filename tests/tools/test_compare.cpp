// `compare` shows the figures that `run` shows.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "models/reading/shipped_files.hpp"
#include "sim/units.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/report_lines.hpp"

namespace tools_test_compare {

using namespace trainyard;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

std::string quoted(const std::string& file) { return "'" + shipped_file("scenarios/" + file).string() + "' "; }

}  // namespace

TEST_CASE("compare of loops has the loops' figures, as run has them", "[compare][post-training]") {
  const test::TopoFolder shell;
  const std::vector<std::string> files{
      "post-training-llama3-8b-16xh100.yaml", "post-training-dpo-llama3-8b-8xh100.yaml",
      "post-training-qwen3-32b-64xh100.yaml", "post-training-qwen3-235b-512xh100.yaml"};
  std::string all;
  for (const std::string& file : files) all += quoted(file);
  const test::TopoAnswer answer = shell.trainyard("compare " + all + "--json c.json");
  CHECK(answer.err.empty());
  CHECK_THAT(answer.out, Contains("loop step") && Contains("answers/s") && Contains("samples/s of the training"));
  const json compared = json::parse(shell.text("c.json"));
  double first = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(files[i]);
    const json run = json::parse(shell.trainyard("run " + quoted(files[i]) + "--no-what-if --json -").out);
    const json& shown = compared.at("scenarios")[i];
    for (const char* key : {"post_training", "step_time_s", "gpus", "energy", "mfu", "memory_bytes", "bottleneck"})
      CHECK(shown.at(key) == run.at(key));
    const double step = run.at("post_training").at("step_time_s");
    CHECK_THAT(answer.out, Contains(show(Seconds{step})));
    CHECK_THAT(answer.out, Contains(fmt::format("{:.4g}", run.at("post_training").at("samples_per_s").get<double>())));
    if (i == 0) {
      first = step;
      continue;
    }
    const json& change = compared.at("changes")[i - 1];
    CHECK(change.at("step_time_share").get<double>() == Approx(step / first - 1));
    CHECK_FALSE(change.contains("slower_probability"));
    // The parts that differ sum to the difference of the loops' steps, less those that are too small to name.
    double sum = 0;
    for (const auto& [part, seconds] : change.at("breakdown_s").items()) sum += seconds.get<double>();
    CHECK(sum == Approx(step - first).margin(7 * 5e-4 * first));
  }
}

TEST_CASE("compare and sweep of engines have the time until the last answer, as run has it",
          "[compare][post-training]") {
  const test::TopoFolder shell;
  const std::string file = quoted("generation-llama3-70b-2xh100.yaml"), few = "--set generation.requests=";
  const auto run = [&](const char* requests) {
    return json::parse(shell.trainyard("run " + file + few + requests + " --no-what-if --json -").out).at("generation");
  };
  const json half = run("32"), full = run("64");
  const json points = json::parse(shell.trainyard("sweep " + file + few + "32,64 --json -").out).at("points");
  CHECK(points[0].at("generation_time_s") == half.at("time_s"));
  CHECK(points[1].at("generation_tokens_per_s") == full.at("tokens_per_s"));
  std::string all;
  for (const char* requests : {"32", "64"}) {
    const std::string text = test::file_text(shipped_file("scenarios/generation-llama3-70b-2xh100.yaml"));
    const std::string name = std::string("with-") + requests + ".yaml", stated = "requests: 1024";
    shell.write(name,
                std::string(text).replace(text.find(stated), stated.size(), std::string("requests: ") + requests));
    all += name + " ";
  }
  const test::TopoAnswer answer = shell.trainyard("compare " + all + "--json c.json");
  CHECK_THAT(answer.out, Contains("time until the last answer") && Contains("forward pass of the plan") &&
                             Contains(show(Seconds{full.at("time_s").get<double>()})));
  const json change = json::parse(shell.text("c.json")).at("changes")[0];
  CHECK(change.at("step_time_share").get<double>() ==
        Approx(full.at("time_s").get<double>() / half.at("time_s").get<double>() - 1));
  CHECK_FALSE(change.contains("slower_probability"));
}

TEST_CASE("the same comparison gives the same bytes", "[compare]") {
  const test::TopoFolder shell;
  const std::string words =
      "compare " + quoted("gpt2-one-a100.yaml") + quoted("gpt2-xl-ddp-dgx-a100.yaml") + "--json -";
  const std::string first = shell.trainyard(words).out;
  CHECK(json::parse(first).at("scenarios").size() == 2);
  CHECK(first == shell.trainyard(words).out);
  CHECK_FALSE(json::parse(first).at("scenarios").at(0).contains("wall_s"));
}

TEST_CASE("compare of one step off with a synchronous loop finds the faster one", "[compare][post-training]") {
  const test::TopoFolder shell;
  const std::string loop = shipped_file("scenarios/post-training-llama3-8b-16xh100.yaml").string();
  CHECK(shell
            .trainyard("sweep '" + loop +
                       "' --set post_training.generation.nodes=1 --set "
                       "post_training.schedule=synchronous,one-step-off --json s.json")
            .exit == 0);
  const json points = json::parse(shell.text("s.json")).at("points");
  CHECK(points[1].at("post_training_step_time_s") < points[0].at("post_training_step_time_s"));
  CHECK(points[1].at("step_time_s") == points[0].at("step_time_s"));
  CHECK(points[1].at("gpus") == 16);
}

TEST_CASE("compare of priced trainings has money, days, goodput and risk", "[compare][costs]") {
  const test::TopoFolder shell;
  const std::string prices = shipped_file("scenarios/prices-example.yml").string();
  const std::string failing = quoted("failures-llama3-16k.yaml");
  const test::TopoAnswer answer =
      shell.trainyard("compare " + failing + failing + "--set 'prices=\"" + prices + "\"' --json c.json");
  CHECK(answer.err.empty());
  const json shown = json::parse(shell.text("c.json")).at("scenarios")[1];
  CHECK_THAT(answer.out, Contains(amount(shown.at("money").at("training")) + " USD"));
  CHECK_THAT(answer.out, Contains(amount(shown.at("money").at("ownership").at("purchase")) + " USD"));
  CHECK_THAT(answer.out, Contains("goodput") && Contains("time of all steps") && Contains("least rent") &&
                             Contains("as long as the first"));
  CHECK_THAT(answer.out, !Contains("e+0"));
}

TEST_CASE("compare of two purchases has the parts of owning, and the prices at which both cost as much a token",
          "[compare][costs]") {
  const test::TopoFolder shell;
  const auto scenario = [](const std::string& node, int nodes) {
    return fmt::format(
        "cluster: {{node: {}, nodes: {}, fabric: nonblocking}}\nmodel: gpt2\nsite: {{pue: 1.3}}\n"
        "plan: {{strategy: megatron, global_batch_size: 64, micro_batch_size: 2, seq_length: 1024, training: {{tokens: "
        "1e10}}}}\nsoftware: megatron-core\n",
        node, nodes);
  };
  shell.write("a.yaml", scenario("dgx-a100", 2));
  shell.write("h.yaml", scenario("dgx-h100", 1));
  shell.write("p.yml",
              "gpu_hour: {a100-sxm4-80gb: 1.5, h100-sxm5-80gb: 2.5}\nkwh: 0.02\npurchase: {node: {dgx-a100: 150000, "
              "dgx-h100: 300000}, switch: 30000, cable: 1000, storage: 100000, years: 5, interest: 0.06, kwh: 0.1, "
              "staff: 0.03, space: 0.02, kw_month: 150}\n");
  const test::TopoAnswer compared = shell.trainyard("compare a.yaml h.yaml --prices p.yml --json c.json");
  CHECK(compared.err.empty());
  CHECK_THAT(compared.out, Contains("owning for all years of depreciation") && Contains("  network") &&
                               Contains("  interest") && Contains("  cooling") && Contains("\nsum ") &&
                               Contains("a and h cost as much a million tokens, if one price changes") &&
                               Contains("price of a kWh, both owned"));
  const json answer = json::parse(shell.text("c.json"));
  for (const json& each : answer.at("scenarios")) {
    const json& owned = each.at("money").at("ownership");
    double sum = 0;
    for (const auto& [part, money] : owned.at("total_parts").items()) sum += money.get<double>();
    CHECK(sum == Approx(owned.at("total").get<double>()));
    CHECK_THAT(compared.out, Contains(with_commas(owned.at("total").get<double>())));
    const json run = json::parse(
        shell.trainyard("run " + each.at("scenario").get<std::string>() + ".yaml --no-what-if --prices p.yml --json -")
            .out);
    CHECK(run.at("money") == each.at("money"));
  }
  // With the price of a break-even, both cost as much.
  const std::string nodes[] = {"dgx-a100", "dgx-h100"}, gpus[] = {"a100-sxm4-80gb", "h100-sxm5-80gb"};
  std::set<std::string> prices;
  for (const json& point : answer.at("changes").at(0).at("break_evens")) {
    const std::string price = point.at("price");
    prices.insert(price);
    REQUIRE(point.at("equal").is_number());
    if (price == "purchase") continue;
    const std::size_t payer = point.at("scenario").is_null() ? 0 : point.at("scenario").get<std::size_t>();
    const std::string key = price == "node"       ? "purchase.node." + nodes[payer]
                            : price == "gpu_hour" ? "gpu_hour." + gpus[payer]
                                                  : "purchase.kwh";
    const std::string set = fmt::format("prices.{}={:.15g}", key, point.at("equal").get<double>());
    CAPTURE(set);
    const json then =
        json::parse(shell.trainyard("compare a.yaml h.yaml --prices p.yml --set " + set + " --json -").out)
            .at("scenarios");
    const auto cost = [&](int i) {
      const json& money = then[i].at("money");
      return (price == "gpu_hour" ? money : money.at("ownership")).at("per_million").get<double>();
    };
    CHECK(cost(0) == Approx(cost(1)));
  }
  CHECK(prices == std::set<std::string>{"node", "purchase", "kwh", "gpu_hour"});
  // Without prices there are no such tables.
  CHECK_THAT(shell.trainyard("compare a.yaml h.yaml").out,
             !Contains("owning for all years") && !Contains("cost as much"));
}

TEST_CASE("compare says how much of a change of compute is that exchanges slow kernels", "[compare]") {
  const test::TopoFolder shell;
  const std::string file = "llama3-8b-fsdp-64xh100.yaml";
  const std::string fast = test::file_text(shipped_file("scenarios/" + file));
  const auto compared = [&](const std::string& old_text, const std::string& new_text) {
    std::string other = fast;
    other.replace(other.find(old_text), old_text.size(), new_text);
    shell.write("other.yaml", other);
    const std::string text = shell.trainyard("compare " + quoted(file) + "other.yaml --json c.json").out;
    const json scenarios = json::parse(shell.text("c.json")).at("scenarios");
    const auto slowed = [&](int i) {
      return scenarios[i].at("critical_path_s").at("slow-down by exchanges").get<double>();
    };
    const double more = slowed(1) - slowed(0);
    return std::pair(text, fmt::format("(slow-down of kernels by exchanges {}{})", more < 0 ? "−" : "+",
                                       show(Seconds{std::abs(more)})));
  };
  const auto [by_network, words] = compared("node: dgx-h100", "node: {base: dgx-h100, hca: {rate: 200 Gbit/s}}");
  CHECK_THAT(by_network, Contains(words));
  const auto [by_batch, no_words] =
      compared("global_batch_size: 64\n  micro_batch_size: 1", "global_batch_size: 128\n  micro_batch_size: 2");
  CHECK_THAT(by_batch, Contains("compute +") && !Contains("slow-down of kernels"));
}

}  // namespace tools_test_compare
