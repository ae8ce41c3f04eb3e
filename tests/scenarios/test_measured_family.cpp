// Measured runs as data: a table in CSV, columns of a scenario, figures of the answer.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/fitted/measured_family.hpp"
#include "models/reading/formula.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "tests/replaced_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace scenarios_test_measured_family {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::string kCsv =
    "where,chip,gpus,micro,step_s,tflops\nours,A100,8,4,0.5,\"100\"\nours,A100,16,2,0.25,\ntheirs,A100,8,1,9,9\n";
const std::string kTable = R"(
family: week-12
source: "our cluster"
scenario:
  cluster: {fabric: nonblocking}
  model: gpt2
figures: {tflops_per_gpu: {limits: {worst: 10}}}
table: {file: runs.csv, where: {where: [ours, mine]}, words: {chip: {A100: dgx-a100}}}
columns:
  id: ${gpus} of ${chip}
  cluster.node: ${chip}
  cluster.nodes: ${gpus / 8}
  plan.micro_batch_size: ${micro}
  plan.global_batch_size: ${2 * (micro * gpus)}
  measured.step_time: ${step_s} s
  figure.tflops_per_gpu: ${tflops}
)";

}  // namespace

TEST_CASE("a formula has numbers, names and the four operations", "[measured-family]") {
  const auto value = [](std::string_view name) {
    if (name == "memory.peak") return 8.0;
    if (name == "n2") return 3.0;
    throw UserError("no " + std::string(name));
  };
  const auto result = [&](const char* formula) { return evaluate(formula, value); };
  CHECK(result("2") == 2);
  CHECK(result("1 + 2*n2 - 4/memory.peak") == 6.5);
  CHECK(result("-(1+n2) / 2 / 2") == -1);
  CHECK(result("8 - 4 - 2") == 2);
  for (const char* malformed_formula : {"", "1 +", "(1", "1 2", "1 ^ 2", "3x"})
    CHECK_THROWS_AS(result(malformed_formula), UserError);
  CHECK_THROWS_WITH(result("1 + infinity"), "no infinity");
}

TEST_CASE("a table in CSV is a family: `where` selects rows, and columns set keys of the scenario",
          "[measured-family]") {
  const TopoFolder folder;
  folder.write("runs.csv", kCsv);
  const MeasuredFamily family(folder.write("week.yaml", kTable));
  CHECK(family.ids == std::vector<std::string>{"8 of dgx-a100", "16 of dgx-a100"});
  const Scenario second_run = read_scenario(family.scenario(1), "second");
  CHECK(second_run.cluster.nodes == 2);
  CHECK(second_run.micro_batch_size == 2);
  CHECK(second_run.global_batch_size == 64);
  CHECK(second_run.measured_run.step_time == Seconds{0.25});
  REQUIRE(family.figures.size() == 1);
  CHECK(family.measured(0, family.figures[0]) == 100);
  CHECK_FALSE(family.measured(1, family.figures[0]));  // the cell is empty

  const auto read = [&](const std::string& from, const std::string& to) {
    return MeasuredFamily(folder.write("bad.yaml", with_replaced(kTable, from, to)));
  };
  CHECK_THROWS_WITH(read("${gpus / 8}", "${gpu / 8}"), Contains("runs.csv:1:1: no column \"gpu\"") && Contains("gpus"));
  CHECK_THROWS_WITH(read("${gpus / 8}", "${chip / 8}"), Contains("runs.csv:2:6: chip: "));
  CHECK_THROWS_WITH(read("${gpus / 8}", "${gpus / 8"), Contains("bad.yaml:") && Contains("without \"}\""));
  CHECK_THROWS_WITH(read("[ours, mine]", "nobody"), Contains("no row of ") && Contains("where"));
  CHECK_THROWS_WITH(read("${gpus} of ${chip}", "${chip}"), Contains("runs.csv:3:1: rows: \"dgx-a100\" is there twice"));
  CHECK_THROWS_WITH(read("runs.csv", "run.csv"), Contains("run.csv"));
}

TEST_CASE("a cell of a table in square brackets is a list", "[measured-family]") {
  const TopoFolder folder;
  folder.write("runs.csv", "id,layers\nsplit,\"[5, 7]\"\neven,\n");
  const MeasuredFamily family(
      folder.write("week.yaml",
                   "family: week-13\nsource: ours\nscenario: {cluster: {node: {base: dgx-a100, gpu: {count: 2}}}, "
                   "model: gpt2, plan: "
                   "{pipeline_parallel: 2, data_parallel: {size: 1}, micro_batch_size: 1, global_batch_size: 4}}\n"
                   "table: {file: runs.csv}\ncolumns: {id: \"${id}\", plan.pipeline.layers: \"${layers}\"}\n"));
  const auto first_stage = [&](std::size_t row) {
    const Scenario s = read_scenario(family.scenario(row), "row");
    return simulate(s).stages.at(0).layers;
  };
  CHECK(first_stage(0) == 6);  // the embedding and five blocks
  CHECK(first_stage(1) == 7);
}

TEST_CASE("validate takes a user's own table of measured runs", "[measured-family]") {
  const TopoFolder shell;
  shell.write("runs.csv", kCsv);
  shell.write("week.yaml", kTable);
  const TopoAnswer answer = shell.trainyard("validate week.yaml --points --json -");
  REQUIRE(answer.exit == 0);
  std::map<std::string, json> sets;
  const json report = parse_json(answer.out);
  for (const json& set : report.at("sets")) sets[set.at("name")] = set;
  CHECK(sets.at("step time of week-12").at("n") == 2);
  CHECK(sets.at("step time of week-12").at("points").at(1).at("measured") == 0.25);
  const json& rate_points = sets.at("tflops_per_gpu of week-12").at("points");
  REQUIRE(rate_points.size() == 1);
  CHECK(rate_points.at(0).at("predicted").get<double>() > 0);
  const std::string text = shell.trainyard("validate week.yaml --points").out;
  CHECK_THAT(text,
             Contains("measured runs (week.yaml)") && Contains("week-12@8 of dgx-a100") && Contains("tflops_per_gpu"));

  shell.write("strict.yaml", with_replaced(kTable, "worst: 10", "worst: 0.0001"));
  CHECK(shell.trainyard("validate strict.yaml").exit == 1);
  shell.write("hoped.yaml", with_replaced(kTable, "limits: {worst: 10}", "aims: {worst: 0.0001}"));
  const TopoAnswer hoped = shell.trainyard("validate hoped.yaml");
  CHECK_THAT(hoped.out, Contains("aim: worst 0.01 %: missed"));
  CHECK(hoped.exit == 0);
  shell.write("odd.yaml", with_replaced(kTable, "limits: {worst: 10}", "predicted: no_such_figure"));
  CHECK_THAT(shell.trainyard("validate odd.yaml").err, Contains("the answer has no number \"no_such_figure\""));
  CHECK_THAT(shell.trainyard("validate none.yaml").err, Contains("none.yaml"));
  CHECK(shell.trainyard("validate week.yaml --left-out").exit == 2);
}

TEST_CASE("rows of one plan have one prediction, and each its own measurement", "[measured-family]") {
  const TopoFolder shell;
  const auto row = [](const char* id, int batch, double seconds) {
    return fmt::format("  - [{}, {}, {} s]\n", id, batch, seconds);
  };
  const std::string family =
      "family: repeated\nsource: made up\nscenario:\n  cluster: {nodes: 1, node: dgx-a100}\n  model: gpt2\n"
      "  plan: {precision: bf16}\ncolumns: [id, plan.micro_batch_size, measured.step_time]\nrows:\n" +
      row("first", 8, 0.2) + row("other", 16, 0.4) + row("again", 8, 0.3);
  shell.write("repeated.yaml", family);
  const TopoAnswer answer = shell.trainyard("validate repeated.yaml --points --json -");
  INFO(answer.err);
  REQUIRE(answer.exit == 0);
  const json report = parse_json(answer.out);
  const json points = report.at("sets").at(0).at("points");
  REQUIRE(points.size() == 3);
  CHECK(points.at(0).at("predicted") == points.at(2).at("predicted"));
  CHECK(points.at(0).at("predicted") < points.at(1).at("predicted"));
  CHECK(points.at(0).at("measured") == 0.2);
  CHECK(points.at(2).at("measured") == 0.3);
}

TEST_CASE("validate counts the measured steps inside the intervals that run prints", "[measured-family]") {
  const TopoFolder shell;
  const std::string scenario =
      "{cluster: {node: dgx-a100}, model: gpt2, software: megatron-core, plan: {micro_batch_size: 4, precision: bf16}}";
  shell.write("run.yaml",
              "cluster: {node: dgx-a100}\nmodel: gpt2\nsoftware: megatron-core\n"
              "plan: {micro_batch_size: 4, precision: bf16}\n");
  const json run = parse_json(shell.trainyard("run run.yaml --json -").out);
  const auto ends = run.at("step_time_interval_s").get<std::array<double, 2>>();
  std::string family =
      "family: ours\nsource: ours\nscenario: " + scenario + "\ncolumns: [id, measured.step_time]\nrows:\n";
  for (const double step : {ends[0] * 1.001, ends[1] * 0.999, ends[0] * 0.999, ends[1] * 1.001})
    family += fmt::format("  - [at {0:.9f}, {0:.9f} s]\n", step);
  shell.write("ours.yaml", family);
  const std::string text = shell.trainyard("validate ours.yaml").out;
  CHECK_THAT(text, Contains("80 % intervals of run hold 2 of 4 measured steps (50.0 %; 50.0 % on average"));
  CHECK_THAT(text, Contains(fmt::format("half width ±{:.1f} %",
                                        (ends[1] - ends[0]) / 2 / run.at("step_time_s").get<double>() * 100)));
}

TEST_CASE("validate judges measured memories of a file, and runs that ran out of memory", "[measured-family]") {
  const TopoFolder shell;
  const std::string plan = "{micro_batch_size: 4, precision: bf16}";
  shell.write("run.yaml", "cluster: {node: dgx-a100}\nmodel: gpt2\nsoftware: megatron-core\nplan: " + plan + "\n");
  const json run = parse_json(shell.trainyard("run run.yaml --json -").out);
  const auto ends = run.at("memory_interval_bytes").get<std::array<double, 2>>();
  const double device = run.at("memory_bytes").at("device").get<double>();
  shell.write(
      "ours.yaml",
      "family: ours\nsource: ours\nlimits: {mean_memory: 0.001}\nscenario: {cluster: {node: dgx-a100}, model: gpt2, "
      "software: megatron-core, plan: " +
          plan + "}\ncolumns: [id, plan.micro_batch_size, measured.device_memory, measured.out_of_memory]\nrows:\n" +
          fmt::format("  - [exact, ~, {:.0f} B, ~]\n  - [below, ~, {:.0f} B, ~]\n", device, ends[0] * 0.99) +
          "  - [small, ~, ~, true]\n  - [huge, 4096, ~, true]\n");
  const TopoAnswer answer = shell.trainyard("validate ours.yaml --points");
  CHECK(answer.exit != 0);  // the mean error is over its limit
  CHECK_THAT(answer.out, Contains("device memory of ours  2"));
  CHECK_THAT(answer.out, Contains("80 % intervals of run hold 1 of 2 measured memories of devices (50.0 %)"));
  CHECK_THAT(answer.out,
             Contains("runs that ran out of memory: 1 would fit as predicted, 0 are at risk, 1 do not fit"));
  CHECK_THAT(answer.out, !Contains("were measured, but would not fit"));
}

TEST_CASE("validate refuses a file of which it predicts nothing, and names the runs that it leaves out",
          "[measured-family]") {
  const TopoFolder shell;
  const std::string head =
      "family: ours\nsource: ours\nscenario: {cluster: {node: dgx-a100}, model: gpt2, software: megatron-core, plan: "
      "{precision: bf16}}\n";
  const auto answer = [&](const std::string& columns, const std::string& rows, const std::string& flags = "") {
    shell.write("ours.yaml", head + "columns: [id, plan.micro_batch_size, " + columns + "]\nrows:\n" + rows);
    return shell.trainyard("validate ours.yaml" + flags);
  };
  const TopoAnswer misspelt = answer("measured.step_tim", "  - [one, 4, 1 s]\n");
  CHECK(misspelt.exit == 2);
  CHECK_THAT(misspelt.err, Contains("none of 1 runs is predicted, such as one: ") && Contains("step_time"));
  const TopoAnswer unmeasured = answer("plan.seq_length", "  - [one, 4, 1024]\n");
  CHECK(unmeasured.exit == 2);
  CHECK_THAT(unmeasured.err, Contains("expected a column such as measured.step_time"));
  const TopoAnswer partly = answer("measured.step_time", "  - [one, 4, 1 s]\n  - [two, x, 1 s]\n", " --json -");
  CHECK(parse_json(partly.out).at("refused").at(0).at("run") == "ours@two");
}

TEST_CASE("validate takes a folder of scenarios/measured by its name", "[measured-family]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate mlperf-v6 --json -");
  REQUIRE(answer.exit == 0);
  const json set = parse_json(answer.out).at("sets").at(0);
  CHECK(set.at("name") == "step time of mlperf-v6-llama3.1-8b");
  CHECK(set.at("n") == 3);
}

TEST_CASE("the runs of training-2026 are predicted within the limits of their families", "[measured-family]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate training-2026 --json -");
  INFO(answer.err);
  CHECK(answer.exit == 0);
  const json sets = parse_json(answer.out).at("sets");
  for (const json& set : sets) {
    const std::string name = set.at("name");
    INFO(name);
    CHECK(set.at("n") >= (name.starts_with("step time of ") ? 2 : 1));  // a stack on a GPU may have one run
  }
}

}  // namespace scenarios_test_measured_family
