#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "models/fitted/measured_family.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/device_memory.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/measured/device_memories.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "sim/json_text.hpp"
#include "tests/replaced_text.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_validate_training {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

std::map<std::string, json> sets_of(const std::string& words, const std::string& runs = "training") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate " + runs + " " + words + " --json -");
  REQUIRE(answer.exit == 0);
  const json all = parse_json(answer.out);
  std::map<std::string, json> sets;
  for (const json& set : all.at("sets")) sets[set.at("name").get<std::string>()] = set;
  return sets;
}

/// Checks that the kept errors of each stack on each GPU are those that validate prints.
void check_stacks(const std::map<std::string, json>& sets, const std::string& left_out_stack = {},
                  const std::string& set_of_runs = "training") {
  struct StackErrors {
    int steps = 0;
    double errors = 0;
  };
  std::map<std::string, StackErrors> kept;
  for (const LeftOutErrors& errors : errors_by_traits(kept_left_out_steps())) {
    const std::string& stack = errors.traits[static_cast<std::size_t>(StepTrait::stack)];
    if (errors.set != set_of_runs || stack == left_out_stack) continue;
    StackErrors& stack_errors = kept[stack + " on " + errors.traits[static_cast<std::size_t>(StepTrait::gpu)]];
    stack_errors.steps += errors.steps;
    stack_errors.errors += errors.fitted * errors.steps;
  }
  for (const auto& [name, stack_errors] : kept) {
    CAPTURE(name);
    const json& set = sets.at(name);
    CHECK(stack_errors.steps == set.at("n").get<int>());
    CHECK(stack_errors.errors / stack_errors.steps == Approx(set.at("mean_abs_error").get<double>()).margin(6e-4));
  }
}

/// Checks that each line of `validate SET --left-out --csv` is a line of the kept table.
void check_left_out(const std::string& set, const std::string& words) {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate " + set + " --left-out " + words + " --csv -");
  INFO("the table is written by: trainyard validate " << set << " --left-out --csv scenarios/measured/tables/left_out_"
                                                      << set << ".csv");
  REQUIRE(answer.exit != 2);  // 1: all families together miss the goal
  const std::string table = file_text(shipped_file("scenarios/measured/tables/left_out_" + set + ".csv"));
  std::istringstream lines(answer.out);
  for (std::string line; std::getline(lines, line);) CHECK_THAT(table, Contains(line + "\n"));
}

const char* const kFamily = R"(
family: two
source: "a test"
scenario:
  cluster: {nodes: 1, node: dgx-a100}
  model: {config: gpt2.json}
  plan: {global_batch_size: 64}
columns: [id, plan.micro_batch_size, cluster.nodes, measured.step_time]
rows:
  - [one, 1, ~, 1 s]
  - [four, 4, 2, 2 s]
)";

}  // namespace

TEST_CASE("measured training steps and their memory are predicted within the limits, with the kept errors of stacks",
          "[validate-training]") {
  // Leaves out the 720 runs of one node, which take half of the time. A deep test has them.
  std::string words;
  for (const char* family : {"dgxc-h100-gpt3-175b", "dgxc-h100-llama3.1-70b", "dgxc-h100-llama3.1-8b", "fms-fsdp",
                             "korthikanti-small", "mbridge-b200-dense", "mbridge-gb200-dense", "megatron-2020-tp",
                             "mpt-a100_80gb", "mpt-h100_80gb", "simumax-b200-deepseekv2", "simumax-b200-dense",
                             "titan-8B", "titan-a100", "vtrain-multi-18.4B", "vtrain-multi-39.1B"})
    words += std::string(" --family ") + family;
  const auto sets = sets_of(words);
  CHECK(sets.at("step time of mpt-a100_80gb").at("n") == 61);
  CHECK(sets.at("peak memory of simumax-b200-dense").at("mean_abs_error").get<double>() <= 0.001);
  for (const auto& [name, set] : sets) {
    CAPTURE(name);
    CHECK(set.value("pass", true));
  }
  check_stacks(sets, "megatron-deepspeed");
}

TEST_CASE("MLPerf's runs are predicted within the limits", "[validate-training]") {
  const auto sets = sets_of("", "mlperf");
  CHECK(sets.at("step time of mlperf-gpt3-175b").at("n") == 13);
  CHECK(sets.at("step time of mlperf-lora-h100").at("n") == 19);
  CHECK(sets.at("step time of mlperf-resnet50-a100").at("n") == 19);
  CHECK(sets.at("scaling efficiency of mlperf-bert-a100").at("error_kind") == "points");
  check_stacks(sets, {}, "mlperf");
  for (const auto& [name, set] : sets) {
    CAPTURE(name);
    CHECK(set.value("pass", true));
  }
}

TEST_CASE("a family is validated by constants fitted without it", "[validate-training][left-out]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate training --left-out --family korthikanti-small --json -");
  REQUIRE(answer.exit == 0);
  const json all = parse_json(answer.out);
  REQUIRE(all.at("families").size() == 1);
  const json& family = all.at("families").front();
  CHECK(family.at("family") == "korthikanti-small");
  CHECK(family.at("left_out").at("n") == 4);
  CHECK(family.at("left_out").at("mean_abs_error").get<double>() < 0.05);
  CHECK(all.at("mean_left_out") == family.at("left_out").at("mean_abs_error"));
  bool host = false;
  for (const json& constant : family.at("constants"))
    if (constant.at("constant") == "stack megatron-2022: host.micro_batch") {
      host = true;
      CHECK(constant.at("left_out").is_string());
    }
  CHECK(host);
  for (const char* words : {"memory --left-out", "schedules --left-out", "training --left-out --html /dev/null"}) {
    const TopoAnswer refused = shell.trainyard(std::string("validate ") + words);
    CHECK(refused.exit == 2);
    CHECK_THAT(refused.err,
               Contains("only with validate training, training-2026, mlperf, mlperf-v6 and outside-the-fit"));
  }
  CHECK_THAT(shell.trainyard("validate training --csv -").err, Contains("--csv: only with --left-out"));
  // A table that is read for the predictions is no target.
  const std::string spreads = shipped_file("scenarios/measured/tables/memory_doubt.csv").string();
  const TopoAnswer overwritten = shell.trainyard("validate memory --csv " + spreads);
  CHECK(overwritten.exit == 2);
  CHECK_THAT(overwritten.err, Contains(", which is read"));
  // No constant is fitted to a family outside the fit, so that it is left out as it is.
  const std::string outside = "validate outside-the-fit --left-out --family titan-8B-h200";
  const json titan = parse_json(shell.trainyard(outside + " --json -").out);
  CHECK(titan.at("mean_in_sample") == titan.at("mean_left_out"));
  CHECK_THAT(shell.trainyard(outside).out, Contains("no constant is fitted to these families"));
  CHECK_THAT(shell.trainyard("validate training --left-out --family korthikanti").err, Contains("korthikanti-small"));
}

TEST_CASE(
    "memory of measured runs is predicted within the limits; runs that ran out of memory are at risk or do not fit, "
    "and at most 2 % of the others do not fit",
    "[validate-training][memory]") {
  const std::vector<FamilyMemory> all = predict_memories(memory_families());
  std::map<std::string, ErrorSet> sets;
  for (const FamilyMemory& family : all)
    for (const MemoryQuantity& quantity : memory_quantities())
      if (const std::optional<ErrorSet> errors = family.errors(quantity)) {
        CAPTURE(errors->name);
        CHECK(holds(family.limits.memory, *errors));
        sets.emplace(errors->name, *errors);
      }
  CHECK(sets.at("peak memory of simumax-b200-dense").worst_abs <= 0.005);
  CHECK(sets.at("reserved memory of titan-8B").n == 10);
  CHECK(sets.at("peak memory of zb-1f1b").n == 24);
  CHECK(sets.at("device memory of pytorch-llama-h200").n == 6);
  for (const bool left_out : {false, true}) {
    const MemoryVerdicts out_of_memory = memory_verdicts(all, true, left_out),
                         completed = memory_verdicts(all, false, left_out);
    CHECK(out_of_memory.runs == 3);
    CHECK(out_of_memory.yes == 0);
    CHECK(out_of_memory.no >= 1);
    CHECK(completed.runs > 1300);
    CHECK(completed.no * 50 <= completed.runs);
    CHECK(completed.yes * 10 >= completed.runs * 9);  // few runs are "at risk"
  }
  CHECK(memory_doubt_csv(fit_memory_doubt(all)) ==
        file_text(shipped_file("scenarios/measured/tables/memory_doubt.csv")));
  const ClassCoverage coverage = coverage_of("memory", 0.25, cover_each_memory(all));
  CAPTURE(coverage.by_steps, coverage.by_families);
  CHECK(coverage.by_steps[1] == Approx(0.8).margin(0.05));
  CHECK(coverage.by_families[1] == Approx(0.8).margin(0.05));
  CHECK(coverage.half_width <= coverage.most_half_width);
}

TEST_CASE("a memory is more doubtful on a stack whose allocator nobody measured", "[memory]") {
  const MemoryDoubt& doubt = MemoryDoubt::shipped();
  CHECK(doubt.spread(true, false) < doubt.spread(true, true));
  CHECK(doubt.spread(true, true) < doubt.spread(false, true));
  const auto interval = [](const char* software) {
    const Result r =
        simulate(read_scenario(shipped_file("scenarios/llama3-8b-fsdp-64xh100.yaml"), {{"software", software}}));
    return std::pair{r.memory_interval.back() / r.memory.device.value, r.memory};
  };
  CHECK(interval("torchtitan").first == Approx(std::exp(1.28155 * doubt.spread(true, true))));
  CHECK(interval("pytorch-fsdp").first == Approx(std::exp(1.28155 * doubt.spread(false, true))));
  // Eager PyTorch's allocator was measured, and scatters more than what allocators add elsewhere.
  const Scenario eager = read_scenario(shipped_file("scenarios/gpt2-xl-ddp-dgx-a100.yaml"));
  const double scatter = eager.software.reserved_memory_spread;
  CHECK(scatter > doubt.spreads[2]);
  const Result r = simulate(eager);
  CHECK(r.memory_interval.back() / r.memory.device.value ==
        Approx(std::exp(1.28155 * doubt.spread(true, true, scatter))));
}

TEST_CASE("the risk of too little memory follows a log-normal spread", "[memory]") {
  constexpr double spread = 0.06;
  DeviceMemory memory;
  memory.spread = spread;
  memory.device = memory.needed = memory.usable = Bytes{80e9};
  CHECK(memory.risk() == Approx(0.5));
  CHECK(memory.fits());
  memory.needed = memory.usable * std::exp(spread);
  CHECK(memory.risk() == Approx(0.8413).margin(1e-4));
  CHECK_FALSE(memory.fits());
  CHECK(std::string(fits_in_words(memory.risk())) == "at risk");
  CHECK(std::string(fits_in_words(0.049)) == "yes");
  CHECK(std::string(fits_in_words(0.951)) == "no");
  const auto [low, high] = memory.interval();
  CHECK(low.value * high.value == Approx(80e9 * 80e9));
  CHECK(std::log(high / low) == Approx(2 * 1.28155 * spread));
  CHECK(std::log(memory.interval(0.95).second / memory.device) == Approx(1.95996 * spread));
}

TEST_CASE("a scaling efficiency is computed from the named row, in percentage points", "[validate-training]") {
  FamilyPrediction family;
  family.name = "two";
  family.limits.efficiency.mean = 0.05;
  RunPrediction one, eight;
  one.samples = 400;
  one.step_time = 0.125;
  one.measured.step_time = Seconds{0.1};
  eight.samples = 200;  // samples of a GPU: half the batch in 0.55 and 0.6 of the time
  eight.step_time = 0.125 * 0.55;
  eight.measured.step_time = Seconds{0.1 * 0.6};
  family.runs = {one, eight};
  family.runs[1].scaled_from = 0;
  family.runs[0].scaled_from = 0;
  const ErrorSet errors = *family.efficiencies();
  REQUIRE(errors.n == 1);
  CHECK(errors.points.front().predicted == Approx(0.5 / 0.55));
  CHECK(errors.points.front().measured == Approx(0.5 / 0.6));
  CHECK(errors.mean_abs == Approx(0.5 / 0.55 - 0.5 / 0.6));
  CHECK_FALSE(family.within_limits());
  CHECK(to_json(errors, false).at("error_kind") == "points");
}

TEST_CASE("all measured training steps are predicted within the limits, with the kept errors of stacks",
          "[validate-training][.deep]") {
  check_stacks(sets_of(""));
  check_stacks(sets_of("", "training-2026"), {}, "training-2026");
}

TEST_CASE("the kept errors of a family left out of the fit are those that the command prints",
          "[validate-training][left-out]") {
  check_left_out("training", "--family korthikanti-small");
}

TEST_CASE("anchors by two steps make the mean error of the other steps smaller", "[validate-training][.deep]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate anchors --json -");
  REQUIRE(answer.exit == 0);
  double left_out = 0, before = 0, after = 0;
  const json families = parse_json(answer.out).at("families");
  for (const json& family : families) {
    left_out += family.at("left_out").get<double>() / static_cast<double>(families.size());
    before += family.at("before").get<double>() / static_cast<double>(families.size());
    after += family.at("after").get<double>() / static_cast<double>(families.size());
  }
  CHECK(families.size() == 34);
  // The figures of the manual (validation.md).
  CHECK(left_out == Approx(0.046).margin(0.0006));
  CHECK(before == Approx(0.038).margin(0.0006));
  CHECK(after == Approx(0.036).margin(0.0006));
}

TEST_CASE("the errors of runs outside the fit are those of the manual", "[validate-training][.deep]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate outside-the-fit --json -");
  CHECK(answer.exit == 0);
  std::istringstream listed(R"(
      automodel-experts 0.119 automodel-llama-70b 0.028 automodel-lora-2-nodes 0.091 automodel-lora 0.036
      bigscience-others 0.046 bridge-deepseek-v3-26.08 0.079 bridge-gpt-oss-120b-bf16 0.061 bridge-gpt-oss-120b
      0.019 bridge-kimi-k2 0.019 bridge-llama3.1-405b 0.030 bridge-llama-fsdp 0.063 bridge-nemotron-3-nano-26.08
      0.012 bridge-qwen3-235b-racks 0.086 bridge-qwen3-30b-26.08 0.029 mlperf-v6-deepseek-v3 0.173
      deepspeed-long-h200-b200 0.066 dfm-wan 0.064 dgxc-gb200-grok-1 0.134 dgxc-h100-grok-1 0.090
      dgxc-h100-maxtext-70b 0.066 dgxc-h100-nemotron-15b 0.025 dgxc-h100-nemotron4-340b 0.059 dgxc-logs 0.093
      dle-bert-a100 0.111 dle-bert-v100 0.194 dle-resnet50 0.122 easycontext-a100 0.138 flagperf-aquila2-a800
      0.028 flagperf-llama2-70b-h800 0.018 flagperf-llama3 0.064 flagperf-mixtral-h100 0.275
      flagperf-paddle-a100 0.075 fsdp-qlora-4090 0.147 fsdp-qlora-70b 0.083 gaudi-2-llama 0.080 gaudi-2-lora-70b
      0.270 gpt-neox-20b-a100 0.250 mlperf-v6-gpt-oss-20b-h100 0.150 mlperf-v6-gpt-oss-20b 0.105
      gpu-recipes-maxtext 0.059 gpu-recipes-nemo 0.103 internevo-7b-large 0.052 jax-vit 0.335
      kempnerforge-experts-h200 0.645 kempnerforge-h200 0.098 litgpt-tinyllama-a100 0.077
      dgxc-h100-llama3.1-405b 0.017 llm-c 0.050 mlperf-v6-lora-gh200 0.118 maxtext-7x-405b 0.069 maxtext-a3
      0.051 maxtext-experts 0.179 maxtext-v5e-128b 0.015 maxtext-v5p-405b 0.107 maxtext-v5p 0.025
      maxtext-v6e-dense 0.033 megatron-llama-a100 0.210 megatron-lm-h100 0.111 mlperf-5-405b 0.027
      mlperf-5-amd-8b 0.028 mlperf-5-amd-lora 0.051 mlperf-5-lora-h200 0.021 mlperf-5.0-lora-gb200 0.063
      mlperf-5.1-8b-nvfp4 0.071 mlperf-5.1-8b 0.087 mlperf-5.1-lora-nvfp4 0.071 mlperf-5.1-lora 0.048
      mlperf-6-8b 0.043 mlperf-6-flux 0.028 mlperf-6-lora 0.097 mlperf-v6-deepseek-v3-gb300 0.053
      mlperf-v6-gpt-oss-20b-gb300 0.102 modded-nanogpt-h100 0.168 modellink-910b 0.080 moe-model-zoo-qwen3 0.131
      mpt-a100_40gb 0.063 mpt-h100-fp8 0.065 mpt-h100-nodes 0.032 ms-swift-a800 0.129 nanotron-h100 0.155
      nemo-24.07-tuning-h100 0.129 nemo-gb200 0.096 neuronx-2.16 0.066 neuronx-llama 0.127 olmo-core-h100 0.116
      optimum-habana-gaudi2 0.171 optimum-habana-gaudi3 0.467 paddlenlp-a100 0.045 pai-qwen3-235b-h800 0.208
      poro-34b-lumi 0.159 primus-linear-attention 0.240 primus-mi355x-deepseek-v2-lite 0.079
      primus-mi355x-deepseek-v2 0.138 smollm3-h100 0.149 t5x-gpu 0.130 te-bench-mi300x-h200 0.215 titan-405B-128
      0.120 titan-405B-512 0.079 titan-70B 0.032 titan-8B-h200 0.007 titan-llama3-a100 0.030 titan-qwen3-32b
      0.192 torchprime-v6e 0.258 torchtune-4090 0.105 torchtune-a100 0.104 vectorlm-a100 0.046 vtrain-175B 0.042
      vtrain-3.6B 0.076 xtuner-a100 0.128)");
  std::map<std::string, double> errors;
  double listed_error = 0;
  for (std::string family; listed >> family >> listed_error;) errors[family] = listed_error;
  std::size_t found = 0;
  const json sets = parse_json(answer.out).at("sets");
  for (const json& set : sets)
    for (const auto& [family, error] : errors)
      if (set.at("name") == "step time of " + family) {
        ++found;
        CHECK(set.at("mean_abs_error").get<double>() == Approx(error).margin(0.0006));
      }
  CHECK(found == errors.size());
  CHECK_THAT(
      shell.trainyard("validate outside-the-fit").out,
      Contains(
          "hold 769 of 962 measured steps (79.9 %; 73.1 % on average over the families); median half width ±12.3 %"));
}

TEST_CASE("a constant has a fitted value without each family that reads it", "[validate-training][.deep]") {
  const TopoFolder shell;
  const json knobs = parse_json(shell.trainyard("validate training --knobs --left-out --json -").out).at("knobs");
  const json sets = parse_json(shell.trainyard("validate training --left-out --json -").out).at("families");
  for (const json& family : sets)
    for (const json& constant : family.at("constants")) {
      const auto knob =
          std::ranges::find(knobs, constant.at("constant"), [](const json& k) { return k.at("constant"); });
      REQUIRE(knob != knobs.end());
      CHECK(knob->at("value") == constant.at("value"));
      CHECK(knob->at("without_family").at(family.at("family")) == constant.at("left_out"));
    }
  for (const json& knob : knobs)
    if (knob.at("constant") == "stack megatron-core: fp8_linear_launches") {
      // Families of other sets determine constants too.
      CHECK(knob.at("without_family").contains("dgxc-h100-llama3.1-8b"));
      CHECK(knob.at("without_family").contains("mlperf-lora-h100"));
    }
}

TEST_CASE("all kept errors left out of the fit are those that the commands print", "[validate-training][.deep]") {
  check_left_out("training", "");
  check_left_out("mlperf", "");
  check_left_out("training-2026", "");
  check_left_out("mlperf-v6", "");
  check_left_out("outside-the-fit", "");
}

TEST_CASE("a row of a family of measured runs is a scenario", "[validate-training][scenario]") {
  const TemporaryFolder folder;
  const std::string file = folder.write("two.yaml", kFamily).string();
  const Scenario one = read_scenario(file + "@one");
  CHECK(one.name == "one");
  CHECK(one.micro_batch_size == 1);
  CHECK(one.cluster.nodes == 1);
  CHECK(one.measured_run.family == "two");
  CHECK(one.measured_run.source == "a test");
  CHECK(one.measured_run.step_time == Seconds{1});
  const Scenario four = read_scenario(file + "@four", {{"cluster.nodes", "1"}});
  CHECK(four.micro_batch_size == 4);
  CHECK(four.cluster.nodes == 1);
  CHECK_THROWS_WITH(read_scenario(file), Contains("a family of 2 measured runs; name the row that you mean, such as") &&
                                             Contains("two.yaml@one"));
  CHECK_THROWS_WITH(read_scenario(file + "@fou"), Contains("no row \"fou\" among its 2; did you mean \"four\"?"));
}

TEST_CASE("an inconsistent family of measured runs is refused at its place", "[validate-training]") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& from, const std::string& to) {
    return MeasuredFamily(folder.write("bad.yaml", with_replaced(kFamily, from, to)));
  };
  CHECK_THROWS_WITH(read("[one, 1, ~, 1 s]", "[one, 1, 1 s]"), Contains("rows: 3 cells, but there are 4 columns"));
  CHECK_THROWS_WITH(read("[four", "[one"), Contains("rows: \"one\" is there twice"));
  CHECK_THROWS_WITH(read("[id, ", "[name, "), Contains("\"id\" expected as the first"));
  CHECK_THROWS_WITH(read("[id, plan.micro_batch_size", "[id, scaled_from"), Contains("no row \"1\" among its 2"));
  CHECK_THROWS_WITH(read("columns", "colums"), Contains("did you mean"));
}

TEST_CASE("published steps of 2022 to 2026 are answered, as many as the manual says", "[validate][answered]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate answered --json -");
  REQUIRE(answer.exit == 0);
  const json all = parse_json(answer.out);
  CHECK(all.at("published") == 260);
  CHECK(all.at("published").get<int>() == all.at("answered").get<int>() + all.at("refused").get<int>());
  std::set<std::string> scenarios;
  for (const json& step : all.at("steps")) scenarios.insert(step.at("scenario").get<std::string>());
  CHECK(scenarios.size() == 260);  // no row answers two steps
  const std::string manual = file_text(TRAINYARD_SOURCE_DIR "/tools/manual/validation.md");
  CHECK_THAT(manual,
             Contains(fmt::format("Of {} published steps of 2022 to 2026 that were collected before, {} are answered",
                                  all.at("published").get<int>(), all.at("answered").get<int>())));
  CHECK_THAT(shell.trainyard("validate answered --points").out,
             Contains("scenarios/measured/training-2026/bridge-deepseek-v3.yaml@26.06.01-GB300-256-L50"));
}

TEST_CASE("the manual has the predicted utilizations of INTELLECT-1", "[validate][diloco]") {
  const TopoFolder shell;
  CHECK_THAT(shell.trainyard("validate diloco").out, Contains("mfu") && !Contains("mean over 0"));
  const TopoAnswer answer = shell.trainyard("validate diloco --points --json -");
  REQUIRE(answer.exit == 0);
  const json all = parse_json(answer.out);
  std::map<std::string, std::vector<double>> predicted;
  for (const json& set : all.at("sets"))
    for (const json& point : set.at("points"))
      predicted[set.at("name").get<std::string>().substr(0, 3)].push_back(point.at("predicted").get<double>() * 100);
  for (auto& [name, values] : predicted) std::sort(values.begin(), values.end());
  REQUIRE(predicted.at("mfu").size() == 2);
  REQUIRE(predicted.at("com").size() == 2);
  CHECK_THAT(file_text(TRAINYARD_SOURCE_DIR "/tools/manual/validation.md"),
             Contains(fmt::format("Predicted are {:.1f} and {:.1f} %, {:.1f} and\n{:.1f} %.", predicted["mfu"][0],
                                  predicted["mfu"][1], predicted["com"][0], predicted["com"][1])));
}

}  // namespace tools_test_validate_training
