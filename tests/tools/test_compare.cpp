// `compare` shows the figures that `run` shows.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
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
  CHECK_THAT(answer.out, Contains("loop step") && Contains("answers/s") && Contains("samples/s of the training half"));
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

}  // namespace tools_test_compare
