// The rates of published runs: what they count, and the errors of the simulator.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/reading/scenario.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_validate_published {

using namespace trainyard;
using namespace trainyard::test;
using nlohmann::json;

namespace {

const std::string kScenario =
    "cluster: {nodes: 1, node: dgx-a100}\nmodel: gpt2\nplan: {micro_batch_size: 4, precision: bf16}\n";

Scenario measured(const std::string& run) {
  return read_scenario_text(kScenario + "measured: {source: here, " + run + "}\n", "published.yaml");
}

}  // namespace

TEST_CASE("a published rate counts the FLOPs that it states", "[published]") {
  const Network network = measured("step_time: 1 s").network;
  const double layers = 12.0 * (12 * 768.0 * 768 + 13 * 768), all = 124439808, attention = 12.0 * 12 * 768 * 1024;
  const auto counted = [&](std::vector<CountedFlops> what) { return counted_flops_per_token(network, what).value; };
  CHECK(counted({CountedFlops::model}) == Approx(6 * all).epsilon(1e-12));
  CHECK(counted({CountedFlops::layers}) == Approx(6 * layers).epsilon(1e-12));
  CHECK(counted({CountedFlops::model, CountedFlops::attention}) == Approx(6 * all + attention).epsilon(1e-12));
  CHECK(counted({CountedFlops::model, CountedFlops::causal_attention}) ==
        Approx(6 * all + attention / 2).epsilon(1e-12));
  CHECK(counted({CountedFlops::layers, CountedFlops::attention, CountedFlops::recomputation}) ==
        Approx(8 * layers + attention * 4 / 3).epsilon(1e-12));
  const double tokens = 4 * 1024;  // tokens of each device
  CHECK(measured("rate: 100 TFLOP/s, counts: [model]").measured_run.step_time.value ==
        Approx(tokens * 6 * all / 100e12).epsilon(1e-12));
  CHECK(measured("tokens_per_s: 2048").measured_run.step_time.value == Approx(2).epsilon(1e-12));
}

TEST_CASE("an impossible measured run is refused at its place", "[published]") {
  CHECK_THROWS_WITH(measured("step_time: 1 s, tokens_per_s: 3"),
                    "published.yaml:4:11: measured: one of step_time, rate, tokens_per_s and samples_per_s expected");
  CHECK_THROWS_WITH(measured("assumed: nothing"),
                    "published.yaml:4:11: measured: one of step_time, rate, tokens_per_s and samples_per_s expected");
  CHECK_THROWS_WITH(measured("rate: 1 TFLOP/s"), Catch::Contains("measured.counts expected too"));
  CHECK_THROWS_WITH(measured("rate: 1 TFLOP/s, counts: [modell]"), Catch::Contains("did you mean \"model\"?"));
  CHECK_THROWS_WITH(measured("rate: 1 TFLOP/s, counts: []"), Catch::Contains("counts"));
}

TEST_CASE("published runs are predicted within the limits", "[published]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate published --json -");
  CHECK(answer.exit == 0);
  const json all = json::parse(answer.out);
  CHECK(all.at("runs").size() == 7);
  for (const json& run : all.at("runs")) {
    CAPTURE(run.at("id"));
    CHECK_FALSE(run.at("source").get<std::string>().empty());
    CHECK_FALSE(run.at("assumed").get<std::string>().empty());
    if (run.at("id").get<std::string>().starts_with("llama")) CHECK(std::abs(run.at("error_points").get<double>()) < 4);
  }
}

}  // namespace tools_test_validate_published
