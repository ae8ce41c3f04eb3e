// The answer of `trainyard plan`: its scenario has the promised time, a resumed search gives the same bytes, and faulty
// questions are refused.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "models/fitted/measured_family.hpp"
#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/legal_batches.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "tests/scenarios/small_plans.hpp"
#include "tests/support.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_plan_answer {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("the best plan is a scenario whose simulation takes the time that the answer says", "[search]") {
  const PlanAnswer answer = answer_plan(question_of(kSmall), few_plans());
  REQUIRE(answer.search.best());
  CHECK(answer.search.proved);
  const Scenario best = read_scenario_text(yaml_text(answer.document), "best.yaml");
  const Result r = simulate(best);
  CHECK(r.step_time.value == Approx(answer.search.best()->outcome.step_time).epsilon(1e-12));
  const auto interval = likely_step_times(r.step_time.value, step_doubt(best, r));
  REQUIRE(interval);
  CHECK(plan_row_fields().json(answer.best.front()).at("step_time_interval_s").at(1) == Approx(interval->back()));
  CHECK(r.memory.peak.value == answer.search.best()->outcome.peak);
  CHECK(best.global_batch_size == 16);
  CHECK(best.model.seq_length == 256);
  REQUIRE(answer.own);
  CHECK(answer.own->outcome.step_time >= r.step_time.value);
  REQUIRE(answer.rule);
  CHECK(answer.rule->outcome.step_time >= answer.search.best()->outcome.step_time);
  REQUIRE(answer.flatness.size() == 3);
  for (const PlanAnswer::Flatness& f : answer.flatness) CHECK(f.at_least <= f.at_most);
}

TEST_CASE("plans on announced hardware have the step times at the ends of its ranges, as run has them",
          "[search][trust]") {
  std::string text = kSmall;
  text.replace(text.find("dgx-a100"), 8, "{base: vr-nvl72, gpu: {count: 8}}");
  const PlanQuestion question = question_of(text);
  const PlanAnswer found = answer_plan(question, few_plans());
  REQUIRE_FALSE(found.best.empty());
  const Result run = answer(read_scenario_text(yaml_text(found.document), "best.yaml")).result;
  REQUIRE(run.announced_step_times);
  const auto row = plan_row_fields().json(found.best.front());
  for (const std::size_t end : {0, 1}) {
    CHECK(row.at("announced_step_times_s").at(end) == Approx(run.announced_step_times->at(end)).epsilon(1e-9));
    CHECK(row.at("step_time_interval_s").at(end) == Approx(run.likely_step_times->at(end)).epsilon(1e-9));
  }
  CHECK(run.announced_step_times->front() < run.announced_step_times->back());
  for (const std::vector<PlanRow>* rows : {&found.best, &found.pareto, &found.neighbours})
    for (const PlanRow& each : *rows) {
      const auto times = each.outcome.doubt.announced(each.outcome.step_time);
      CHECK(times.has_value() == each.outcome.good());
      if (times) CHECK((times->front() <= each.outcome.step_time && each.outcome.step_time <= times->back()));
    }
  const auto [fast, slow] = *found.best.front().outcome.doubt.announced(found.best.front().outcome.step_time);
  CHECK_THAT(std::regex_replace(plan_screen(found, question.base), std::regex("\\s+"), " "),
             Catch::Contains("memory_bandwidth 13 TB/s to 22 TB/s") &&
                 Catch::Contains(fmt::format("the step takes {} to {}", show(Seconds{fast}), show(Seconds{slow}))) &&
                 Catch::Contains("by the ranges: the step at both ends"));
  CHECK(StepDoubt::from_figures(found.best.front().outcome.doubt.figures()).announced(1) ==
        found.best.front().outcome.doubt.announced(1));
  const PlanAnswer shipped = answer_plan(question_of(kSmall), few_plans());
  CHECK_FALSE(plan_row_fields().json(shipped.best.front()).contains("announced_step_times_s"));
}

TEST_CASE("a plan without a batch is searched with the samples that run takes", "[search]") {
  const std::string text =
      "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\nplan: {micro_batch_size: 4, seq_length: 256}\n";
  const PlanQuestion question = question_of(text);
  CHECK(question.base.global_batch_size == read_scenario_text(text, "small.yaml").global_batch_size);
  const PlanAnswer answer = answer_plan(question, few_plans());
  REQUIRE(answer.own);
  CHECK(answer.own->outcome.step_time == Approx(simulate(*question.own).step_time.value).epsilon(1e-12));
  CHECK(read_scenario_text(yaml_text(answer.document), "best.yaml").global_batch_size == 32);
  // Five tensor ranks divide nothing, so that no plan says how many samples a step has.
  CHECK_THROWS_WITH(question_of(text, {{"plan.tensor_parallel", "5"}}), Catch::Contains("plan.global_batch_size"));
}

TEST_CASE("neighbours of the best plan differ in one choice, and none that fits is faster", "[search]") {
  const PlanAnswer answer = answer_plan(question_of(kSmall), few_plans());
  REQUIRE(answer.search.best());
  CHECK(answer.neighbours.size() > 4);
  for (const PlanRow& row : answer.neighbours) {
    CAPTURE(row.change);
    if (row.outcome.fits) CHECK(row.outcome.step_time >= answer.search.best()->outcome.step_time);
    CHECK(row.plan != answer.best.front().plan);
    if (const std::size_t middle = row.change.find(" instead of "); middle != std::string::npos)
      CHECK_FALSE(row.change.substr(0, middle).ends_with(row.change.substr(middle + 12)));
  }
  double least = 1e300;
  for (const PlanRow& row : answer.pareto) {
    CHECK(row.outcome.peak < least);
    least = row.outcome.peak;
  }
}

namespace {

/// Checks that no plan of the answer beats a plan of the front, and that no plan is better than all of the front.
void check_front(const PlanAnswer& answer) {
  std::vector<PlanRow> rows = answer.best;
  rows.insert(rows.end(), answer.neighbours.begin(), answer.neighbours.end());
  rows.insert(rows.end(), answer.pareto.begin(), answer.pareto.end());
  for (const std::optional<PlanRow>& row : {answer.own, answer.rule})
    if (row) rows.push_back(*row);
  for (const SimulatedPlan& plan : answer.search.simulated) rows.push_back({"", "", 0, plan.outcome, true});
  REQUIRE_FALSE(answer.best.empty());
  REQUIRE_FALSE(answer.pareto.empty());
  const double usable = answer.capacity * (1 - answer.headroom);
  for (const PlanRow& row : rows) {
    CAPTURE(row.plan, row.change, row.outcome.step_time, row.outcome.peak);
    CHECK(row.leaves_headroom == (row.outcome.fits && row.outcome.peak <= usable));
    if (!row.leaves_headroom) continue;
    CHECK(answer.best.front().outcome.step_time <= row.outcome.step_time);
    bool is_covered = false;
    for (const PlanRow& front_row : answer.pareto) {
      const PlanOutcome &front = front_row.outcome, &other = row.outcome;
      CAPTURE(front_row.plan, front.step_time, front.peak);
      CHECK_FALSE((other.step_time <= front.step_time && other.peak <= front.peak &&
                   (other.step_time < front.step_time || other.peak < front.peak)));
      is_covered |= front.step_time <= other.step_time && front.peak <= other.peak;
    }
    CHECK(is_covered);
  }
}

}  // namespace

TEST_CASE("no plan that was simulated beats one of the front, and the best is the fastest", "[search]") {
  PlanAnswerOptions complete_search = few_plans(), short_search = few_plans(), large_headroom = few_plans(),
                    more_degrees = few_plans();
  short_search.search.work = 1;  // enough for one or a few plans and their neighbours
  large_headroom.headroom = 0.9;
  more_degrees.space.vary.push_back({"plan.tensor_parallel", {"4", "8"}});  // the scenario's own plan has 2
  for (const PlanAnswerOptions& options : {complete_search, short_search, large_headroom, more_degrees})
    for (const Overrides& overrides :
         {Overrides{}, Overrides{{"cluster.node", "{base: dgx-a100, gpu: {memory_capacity: 4 GiB}}"}},
          Overrides{{"plan.data_parallel", "{bucket: 1 MB}"}, {"software", "pytorch-ddp"}}}) {
      const PlanAnswer answer = answer_plan(question_of(kSmall, overrides), options);
      if (answer.search.best() || answer.own_is_best) check_front(answer);
    }
}

TEST_CASE("plans leave the headroom free, and the answer also has the best plan without headroom", "[search]") {
  const auto answer_with = [](double headroom, const char* memory) {
    PlanAnswerOptions options = few_plans();
    options.headroom = headroom;
    const std::string node =
        fmt::format("{{base: dgx-a100, gpu: {{memory_capacity: {}, driver_memory: null}}}}", memory);
    // CUDA's context does not fit into so small a GPU: bare memory does not count it.
    return answer_plan(
        question_of(kSmall, {{"cluster.node", node}, {"software", "{base: megatron-core, bare_memory: true}"}}),
        options);
  };
  int different_plans = 0;
  for (const char* memory : {"0.5 GiB", "0.7 GiB", "1 GiB", "2 GiB"}) {
    const PlanAnswer zero_headroom = answer_with(0, memory);
    for (const double headroom : {0.05, 0.2, 0.4}) {
      CAPTURE(memory, headroom);
      const PlanAnswer with_headroom = answer_with(headroom, memory);
      CHECK(with_headroom.headroom == headroom);
      if (with_headroom.search.best())
        CHECK(with_headroom.search.best()->outcome.peak <= with_headroom.capacity * (1 - headroom));
      REQUIRE(zero_headroom.search.best());
      CHECK(with_headroom.search.proved_without);
      // The search with headroom also reports the best plan without it.
      const double least = with_headroom.without_headroom ? with_headroom.without_headroom->outcome.step_time
                                                          : with_headroom.best.front().outcome.step_time;
      CHECK(least == zero_headroom.best.front().outcome.step_time);
      if (!with_headroom.without_headroom) continue;
      ++different_plans;
      CHECK(with_headroom.without_headroom->outcome.peak > with_headroom.capacity * (1 - headroom));
      CHECK_FALSE(with_headroom.without_headroom->leaves_headroom);
    }
  }
  CHECK(different_plans > 0);
}

TEST_CASE("the default headroom is the memory that a simulated peak does not count", "[search]") {
  const auto headroom = [](const char* software, const char* node) {
    return default_headroom(question_of(kSmall, {{"software", software}, {"cluster.node", node}}).base);
  };
  // The allocator takes 6.1 %, eager PyTorch's 11.5 %, and context and libraries take 1.5 of 80 GiB. A stack may count
  // 1 GiB of these in its peak.
  CHECK(headroom("megatron-core", "dgx-a100") == Approx(0.079).margin(0.001));
  CHECK(headroom("pytorch-ddp", "dgx-a100") == Approx(0.121).margin(0.001));
  double least = 1, most = 0;
  for (const char* stack : {"deepspeed", "jax", "megatron-core", "megatron-deepspeed", "nemo", "pytorch-autocast",
                            "pytorch-ddp", "pytorch-fsdp", "torchtitan"}) {
    least = std::min(least, headroom(stack, "dgx-a100"));
    most = std::max(most, headroom(stack, "dgx-a100"));
  }
  const std::string manual = read_file(TRAINYARD_SOURCE_DIR "/tools/manual/planning-and-cost.md");
  CHECK_THAT(manual, Catch::Contains(fmt::format("{:.1f} to {:.1f} % of 80 GiB", least * 100, most * 100)));
  CHECK(headroom("megatron-core", "dgx-a100-40gb") > headroom("megatron-core", "dgx-a100"));
  CHECK(parse_headroom("8 %") == 0.08);
  CHECK(parse_headroom("0.08") == 0.08);
  CHECK(parse_headroom("0") == 0);
  for (const char* malformed_headroom : {"8", "-1 %", "100 %", "much", ""})
    CHECK_THROWS_WITH(parse_headroom(malformed_headroom), Catch::Contains("--headroom"));
  CHECK_THROWS_WITH(parse_headroom("8"), Catch::Contains("8 % ?"));
}

TEST_CASE("a strategy offers the schedules that its framework has", "[search][modes]") {
  const auto offered = [](const Overrides& overrides) {
    const PlanQuestion question = question_of(kSmall, overrides);
    const PlanSpace space(question, {});
    std::set<std::string> schedules;
    for (const PlanPoint& group : space.groups())
      if (group.pipeline > 1)
        for (const PlanPoint& point : space.points(group)) schedules.insert(point.schedule);
    return schedules;
  };
  const std::vector<std::string> all = pipeline_schedules().names();
  for (const FrameworkMode& mode : framework_modes()) {
    CAPTURE(mode.name);
    CHECK(mode.splits_model == !mode.schedules.empty());
    for (const std::string& name : mode.schedules) CHECK(std::ranges::find(all, name) != all.end());
    if (!mode.splits_model) continue;
    const std::set<std::string> framework_schedules(mode.schedules.begin(), mode.schedules.end());
    CHECK(offered({{"plan.strategy", mode.name}, {"software", "plain"}}) == framework_schedules);
  }
  std::set<std::string> with_one_copy(all.begin(), all.end());
  for (const char* name : {"dualpipe", "zb-auto"}) CHECK(with_one_copy.erase(name) == 1);  // only --vary offers them
  CHECK(offered({}) == with_one_copy);
  CHECK(offered({{"plan.strategy", "megatron"}}) == std::set<std::string>{"1f1b", "interleaved-1f1b"});
  PlanSpaceOptions options;
  options.vary = {{"plan.pipeline.schedule", {"1f1b", "zb-h1"}}};
  const PlanQuestion question = question_of(kSmall, {{"plan.strategy", "megatron"}});
  CHECK_THROWS_WITH(
      PlanSpace(question, options),
      Catch::Contains("zb-h1, but plan.strategy is megatron, which has 1f1b, interleaved-1f1b; --strategy any"));
}

TEST_CASE("a search that resumes from another's journal gives the same bytes", "[search]") {
  const TemporaryFolder folder;
  PlanAnswerOptions options = few_plans();
  const std::string fresh = json_of_answer(answer_plan(question_of(kSmall), options));
  options.journal = folder.path() / "plans";
  CHECK(json_of_answer(answer_plan(question_of(kSmall), options)) == fresh);
  const std::string all = folder.text("plans");
  CHECK(std::ranges::count(all, '\n') > 4);
  CHECK(json_of_answer(answer_plan(question_of(kSmall), options)) == fresh);
  CHECK(folder.text("plans") == all);  // nothing was simulated again
  folder.write("plans", all.substr(0, all.size() / 2));
  CHECK(json_of_answer(answer_plan(question_of(kSmall), options)) == fresh);
}

TEST_CASE("each plan of a search is simulated, refused, too large or dropped", "[search]") {
  for (const char* recompute : {"none", "full"}) {
    const PlanAnswer answer = answer_plan(question_of(kSmall, {{"plan.recompute", recompute}}), few_plans());
    const PlanSearch& search = answer.search;
    CHECK(search.runs + search.refused + search.too_large + search.dropped() == search.plans + search.outside);
    CHECK(search.outside == (std::string(recompute) == "full" ? 1 : 0));  // few_plans() has no full recomputation
    for (const PlanAnswer::Flatness& flat : answer.flatness) CHECK(flat.at_most - flat.at_least <= search.dropped());
  }
}

TEST_CASE("if no plan fits, the answer has the closest one", "[search]") {
  const PlanAnswer answer = answer_plan(
      question_of(kSmall, {{"cluster.node", "{base: dgx-a100, gpu: {memory_capacity: 100 MiB}}"}}), few_plans());
  CHECK_FALSE(answer.search.best());
  REQUIRE(answer.search.closest);
  CHECK(answer.search.closest_peak > answer.capacity);
}

TEST_CASE("twice the memory makes no plan slower", "[search]") {
  PlanAnswerOptions options = few_plans();
  options.upgrades = true;
  options.neighbours = options.rule = false;
  const PlanAnswer answer = answer_plan(question_of(kSmall), options);
  REQUIRE(answer.upgrades.size() >= 2);
  for (const PlanRow& row : answer.upgrades) {
    CAPTURE(row.change, row.plan);
    CHECK(row.outcome.step_time <= answer.search.best()->outcome.step_time * (1 + 1e-12));
  }
}

TEST_CASE("a search refuses questions that it cannot answer", "[search]") {
  const auto ask = [](const Overrides& overrides) { question_of(kSmall, overrides); };
  CHECK_THROWS_WITH(ask({{"plan.steps", "4"}}), Catch::Contains("plan.steps"));
  CHECK_THROWS_WITH(ask({{"plan.data_parallel", "{mechanism: parameter-server}"}, {"plan.tensor_parallel", "1"}}),
                    Catch::Contains("mechanism"));
  CHECK_THROWS_WITH(ask({{"plan.step_time", "1 s"}}), Catch::Contains("plan.step_time"));
  CHECK_THROWS_WITH(ask({{"cluster.nods", "4"}}), Catch::Contains("did you mean \"nodes\""));
  const PlanQuestion question = question_of(kSmall);
  const auto vary = [&question](const std::string& path, const std::string& value) {
    PlanSpaceOptions options;
    options.vary = {{path, {value}}};
    const PlanSpace space(question, options);
    return space.points(space.groups().front());
  };
  CHECK_THROWS_WITH(vary("plan.global_batch_size", "4"), Catch::Contains("what is computed"));
  CHECK_THROWS_WITH(vary("cluster.nodes", "4"), Catch::Contains("a field of the plan expected"));
  CHECK_THROWS_WITH(vary("plan.tensor_parallel", "two"), Catch::Contains("a whole number expected"));
  CHECK_THROWS_WITH(vary("plan.data_parallel.zero_stage", "300"),
                    Catch::Contains("300 is no stage; expected 0, 1, 2 or 3"));
  PlanAnswerOptions misspelt_key;
  misspelt_key.space.vary = {{"plan.tensor_paralel", {"2"}}};
  CHECK_THROWS_WITH(answer_plan(question, misspelt_key), Catch::Contains("did you mean \"tensor_parallel\""));
}

TEST_CASE("documents as text read back the same", "[search]") {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(shipped_file("scenarios"))) {
    if (file.path().extension() != ".yaml") continue;
    CAPTURE(file.path().string());
    ++files;
    const Node document = read_scenario_document(file.path());
    const std::string text = yaml_text(document);
    CHECK(yaml_text(parse_document(text, "again.yaml")) == text);
  }
  CHECK(files > 20);
  CHECK(yaml_text(parse_document("a: \"1: 2\"\nb: {c: [\"x,y\", ~], d: -1}\n", "t.yaml")) ==
        "a: \"1: 2\"\nb:\n  c: [\"x,y\", ~]\n  d: -1\n");
}

TEST_CASE("a batch that divides among no replicas is named as the cause, with the nearest batches", "[search]") {
  const std::string three_nodes =
      "cluster: {node: dgx-a100, nodes: 3, fabric: nonblocking}\nmodel: resnet50\nsoftware: pytorch-ddp\nplan: "
      "{global_batch_size: 64, precision: fp16}\n";
  PlanAnswerOptions options;
  options.space.vary = {{"plan.pipeline_parallel", {"1"}}};
  CHECK_THROWS_WITH(answer_plan(question_of(three_nodes), options),
                    Catch::Contains("a multiple of 24 replicas, but the batch of 64 is no multiple of 24") &&
                        Catch::Contains("nearest batches: 48 (-25.0 %), 72 (+12.5 %)"));
  const LegalSplits splits{1536, {3, 12, 48, 384}, ""};
  CHECK(splits.dividing(2048) == 0);
  CHECK(splits.dividing(1536) == 4);
  CHECK(splits.best_batch(2048, 1900, 2200) == 1920);
  CHECK(splits.best_batch(2048, 2048, 2048) == 0);
  // Of batches that divide among the same replicas only the largest is listed. 1536 divides among all, and comes first.
  CHECK(splits.promising_batches(2048, 1536, 1539, 9) == std::vector<std::int64_t>{1536, 1539});
  CHECK(splits.promising_batches(1539, 1536, 1542, 9) == std::vector<std::int64_t>{1539, 1536, 1542});
  CHECK(splits.promising_batches(1539, 1536, 1542, 2).size() == 2);
  CHECK(splits.promising_batches(2048, 2048, 2048, 9).empty());
  CHECK_THAT(splits.why_none(2048), Catch::Contains("a multiple of 3 replicas") && Catch::Contains("2046 (-0.1 %)") &&
                                        Catch::Contains("1920 (-6.2 %) divides among 4 of the 4"));
  CHECK(LegalSplits{8, {}, ""}.why_none(64) == "no split of the model over 8 GPUs has the values of --vary");
}

TEST_CASE("`plan` takes --strategy and --headroom, and reports the headroom", "[search][cli]") {
  const TopoFolder folder;
  const std::string small_command =
      "plan --model gpt2 --on dgx-a100 --batch 8 --set model.n_layer=4 --set plan.seq_length=128 --brief --vary "
      "plan.micro_batch_size=1 --vary plan.recompute=none ";
  const auto plan_json = [&](const std::string& flags) {
    const TopoAnswer answer = folder.trainyard(small_command + flags + " --json -");
    INFO(flags << answer.err);
    REQUIRE(answer.exit == 0);
    return parse_json(answer.out);
  };
  const nlohmann::json any_strategy = plan_json("--strategy any"), megatron = plan_json("--strategy megatron");
  CHECK(any_strategy["plans"] > megatron["plans"]);
  CHECK(any_strategy["plans"] == plan_json("")["plans"]);
  CHECK(plan_json("--strategy any --set plan.strategy=megatron")["plans"] == any_strategy["plans"]);
  CHECK(plan_json("--headroom 0")["headroom"] == 0);
  CHECK(plan_json("--headroom '12.5 %'")["headroom"] == 0.125);
  CHECK(any_strategy["headroom"] > 0);
  CHECK(any_strategy["simulated"].get<int>() + any_strategy["refused"].get<int>() +
            any_strategy["too_large"].get<int>() + any_strategy["dropped"].get<int>() ==
        any_strategy["plans"].get<int>() + any_strategy["simulated_outside"].get<int>());
  const std::string screen = folder.trainyard(small_command).out;
  for (const char* words : {"gpt2 in bf16 on 8 × a100-sxm4-80gb", "8 samples a step of 128 tokens",
                            "software   megatron-core: Megatron-LM (core", " dropped;\n", "\nheadroom ",
                            "\ntrust      ", "run --sources lists them"})
    CHECK_THAT(screen, Catch::Contains(words));
  CHECK(widest_line(screen) <= 120);
  const TopoAnswer refused_answer = folder.trainyard(small_command + "--headroom 12");
  CHECK(refused_answer.exit == 2);
  CHECK_THAT(refused_answer.err, Catch::Contains("12 % ?"));
  CHECK_THAT(folder.trainyard(small_command + "--strategy megatrn").err, Catch::Contains("did you mean \"megatron\""));
}

}  // namespace scenarios_test_plan_answer
