// Published rates and measured collectives: what they count, and the errors of the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/src/running/simulate.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_validate_published {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
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
  const json all = parse_json(answer.out);
  CHECK(all.at("runs").size() == 7);
  for (const json& run : all.at("runs")) {
    CAPTURE(run.at("id"));
    CHECK_FALSE(run.at("source").get<std::string>().empty());
    CHECK_FALSE(run.at("assumed").get<std::string>().empty());
    if (run.at("id").get<std::string>().starts_with("llama31"))
      CHECK(std::abs(run.at("error_points").get<double>()) < 4);
  }
  // The manual and the README state these errors.
  const std::filesystem::path root = TRAINYARD_SOURCE_DIR;
  const std::string page = file_text(root / "tools/manual/validation.md");
  const auto error = [&all](const std::string& id) {
    for (const json& run : all.at("runs"))
      if (run.at("id") == id) return run.at("error_points").get<double>();
    FAIL("no run " << id);
    return 0.0;
  };
  double worst = 0;
  for (const json& run : all.at("runs")) worst = std::max(worst, std::abs(run.at("error_points").get<double>()));
  const double mean = all.at("mean_abs_points");
  CHECK_THAT(page, Contains(fmt::format("The mean difference is {:.1f} points of MFU", mean)));
  CHECK_THAT(file_text(root / "README.md"),
             Contains(fmt::format("{:.1f} points of MFU on average, {:.1f} at worst", mean, worst)));
  CHECK_THAT(file_text(root / "README.md"), Contains("seven published runs"));
  // The verdicts on memory are those of `run`.
  const std::string table = shell.trainyard("validate published").out;
  std::string at_risk;
  for (const json& run : all.at("runs")) {
    const std::string id = run.at("id");
    CAPTURE(id);
    const Result result = simulate(read_scenario(root / "scenarios/published" / (id + ".yaml"), {}));
    CHECK(run.at("fits_in_words") == result.fits_in_words());
    const std::size_t row = table.find("\n" + id);
    REQUIRE(row != std::string::npos);
    const std::string line = table.substr(row + 1, table.find('\n', row + 1) - row - 1);
    const std::string verdict = result.fits_in_words();
    CHECK((line.find("AT RISK") != std::string::npos) == (verdict == "at risk"));
    CHECK((line.find("DOES NOT FIT") != std::string::npos) == (verdict == "no"));
    if (verdict == "at risk") at_risk += id + " ";
  }
  CHECK(at_risk.find("llama31-405b-8k-8192") != std::string::npos);
  // The shipped scenario of the same run says which step is of which software.
  const std::filesystem::path shipped = root / "scenarios/llama3-405b-16k-h100.yaml";
  const Result core = simulate(read_scenario(shipped, {}));
  const double own = simulate(read_scenario(shipped, {{"software", "meta-llama3"}})).step_time.value;
  CHECK(own ==
        Approx(simulate(read_scenario(root / "scenarios/published/llama31-405b-8k-16384.yaml", {})).step_time.value));
  double rates = 0;
  for (const json& run : all.at("runs"))
    if (run.at("id") == "llama31-405b-8k-16384")
      rates = run.at("predicted_rate").get<double>() / run.at("published_rate").get<double>();
  std::string header = file_text(shipped).substr(0, 1400);
  for (std::size_t at = 0; (at = header.find("\n# ", at)) != std::string::npos;) header.replace(at, 3, " ");
  CHECK_THAT(header,
             Contains(fmt::format("whose step takes {:.2f} s: {:.0f} TFLOP/s a GPU", core.step_time.value,
                                  core.tflops_per_gpu)) &&
                 Contains(fmt::format("TFLOP/s, a step of {:.2f} s, are of Meta's own software", own * rates)) &&
                 Contains(fmt::format("`--set software=meta-llama3` takes {:.2f} s", own)));
  CHECK_THAT(page, Contains(fmt::format("as its paper describes it) | {:+.1f} and {:+.1f} |",
                                        error("llama31-405b-131k-16384"), error("llama31-405b-8k-16384"))));
  for (const auto& [row, id] : {std::pair{"Llama 3.1 405B on 8,192 GPUs", "llama31-405b-8k-8192"},
                                {"GPT-3 175B", "gpt3-175b-1024-a100"},
                                {"Llama 2 7B", "llama2-7b-128-a100"},
                                {"BLOOM (as its script starts it)", "bloom-176b-384"},
                                {"DeepEP's dispatch)", "deepseek-v3-2048"}})
    CHECK_THAT(page, Contains(fmt::format("{} | {:+.1f} |", row, error(id))));
}

TEST_CASE("validate kernels judges products and attention within their limits, and the manual has the errors",
          "[kernels]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate kernels --json k.json");
  CHECK(answer.exit == 0);
  CHECK(answer.out.find("FAILS") == std::string::npos);
  std::map<std::string, json> by_name;
  const json sets = parse_json(shell.text("k.json")).at("sets");
  for (const json& set : sets) by_name[set.at("name")] = set;
  const auto cell = [&](const std::string& name, const char* key, const char* form) {
    CAPTURE(name);
    return fmt::format(fmt::runtime(form), by_name.at(name).at(key).get<double>() * 100);
  };
  std::string page = file_text(TRAINYARD_SOURCE_DIR "/tools/manual/validation.md");
  const auto row = [&](const char* name, const char* form) {
    return fmt::format("| {} | {} |", cell(name, "median_abs_error", form), cell(name, "p90_abs_error", form));
  };
  CHECK_THAT(page, Contains(row("gemm bf16 on mi355x", "{:.1f} %")));
  for (const char* name :
       {"gemm fp8_uncast on mi355x", "gemm fp8_block_uncast on mi355x", "gemm mxfp4_uncast on mi355x",
        "gemm int8_uncast on mi325x", "gemm fp8_block_uncast on mi325x", "gemm nvfp4 on b200-sxm-180gb"})
    CHECK_THAT(page, Contains(row(name, "{:.0f} %")));
  const auto both = [&](const char* first, const char* second, const char* third, const char* key) {
    return fmt::format("{} / {} / {}", cell(first, key, "{:.1f} %"), cell(second, key, "{:.1f} %"),
                       cell(third, key, "{:.1f} %"));
  };
  for (const char* key : {"median_abs_error", "p90_abs_error"})
    CHECK_THAT(page, Contains(both("gemm bf16 on a100-sxm4-80gb", "gemm bf16 on h100-sxm5-80gb",
                                   "gemm bf16 on b200-sxm-180gb", key)));
}

TEST_CASE("validate collectives judges the NCCL model within its limits", "[cli][nccl]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate collectives --json c.json --points --csv c.csv");
  CHECK(answer.exit == 0);
  CHECK(shell.text("c.csv") == file_text(TRAINYARD_SOURCE_DIR "/scenarios/measured/tables/collective_doubt.csv"));
  CHECK(answer.out.find("FAILS") == std::string::npos);
  const json sets = parse_json(shell.text("c.json")).at("sets");
  std::map<std::string, json> by_name;
  for (const json& set : sets) {
    for (const char* key : {"name", "n", "error_kind", "mean_abs_error", "median_abs_error", "p90_abs_error",
                            "worst_abs_error", "signed_mean_error", "rank_correlation", "points"})
      CHECK(set.contains(key));
    by_name[set.at("name")] = set;
  }
  for (const char* name : {"nccl a100_sxm", "nccl h100_sxm", "nccl b200_sxm", "nccl pooled"}) {
    INFO(name);
    CHECK(by_name.at(name).at("n") == (std::string(name) == "nccl pooled" ? 396 : 132));
    CHECK(by_name.at(name).at("median_abs_error") <= 0.04);
    CHECK(by_name.at(name).at("p90_abs_error") <= 0.15);
  }
  CHECK(by_name.at("collectives in one node").at("n") == 208);
  CHECK(by_name.at("collectives in one node").at("median_abs_error") <= 0.10);
  CHECK(by_name.at("collectives between nodes (in the fit)").at("n") == 20);
  for (const char* name : {"between nodes by infiniband, left out", "between nodes by efa, left out",
                           "in one node by pcie", "in one node by xgmi", "in one node by nvlink"})
    CHECK(by_name.at(name).at("n") > 20);
  CHECK(answer.out.find("nvidia-h100-4x8-8x400") != std::string::npos);
  CHECK(answer.out.find("of its wires: not judged") != std::string::npos);
  // Intervals that are fitted without a system hold about 80 % of its rows.
  std::istringstream coverage(answer.out.substr(answer.out.find("\nall ")));
  std::string all, slash;
  double rows = 0, systems = 0, by_rows = 0, by_systems = 0;
  coverage >> all >> rows >> systems >> by_rows >> slash >> by_systems;
  CHECK(rows > 1500);
  CHECK(systems > 80);
  CHECK(by_rows == Approx(80).margin(5));
  CHECK(by_systems == Approx(80).margin(5));
}

}  // namespace tools_test_validate_published
