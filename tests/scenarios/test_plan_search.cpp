// The search for the best plan: floors are below simulated times, memory is that of the simulation, and the search
// misses no better plan.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <set>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/searched_degrees.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/plan_search.hpp"

namespace scenarios_test_plan_search {

using namespace trainyard;

namespace {

PlanQuestion small_question(const std::string& cluster, const std::string& model, const std::string& plan,
                            const std::string& software) {
  return read_plan_question(parse_document("cluster: " + cluster + "\nmodel: " + model + "\nplan: {" + plan +
                                               "}\nsoftware: " + software + "\n",
                                           "small.yaml"),
                            "small");
}

/// Machines, networks and stacks that plans are drawn for.
std::vector<PlanQuestion> unlike_questions() {
  std::vector<PlanQuestion> questions;
  const std::string gpt = "{base: gpt2, n_layer: 4}";
  questions.push_back(
      small_question("{node: dgx-a100}", gpt, "global_batch_size: 32, seq_length: 256", "megatron-core"));
  questions.push_back(small_question("{node: dgx-h100, nodes: 2, fabric: rail-optimized}", gpt,
                                     "global_batch_size: 64, seq_length: 256", "megatron-2022"));
  questions.push_back(small_question("{node: dgx-a100, nodes: 2, fabric: nonblocking}",
                                     "{base: llama-3-8b, num_hidden_layers: 4}",
                                     "global_batch_size: 32, seq_length: 1024, context_parallel: 2", "torchtitan"));
  questions.push_back(small_question("{node: dgx-1v}", "{base: bert-base, num_hidden_layers: 6}",
                                     "global_batch_size: 48, seq_length: 128, precision: fp16", "deepspeed"));
  questions.push_back(small_question("{node: dgx-h100}", "{base: mixtral-8x7b, num_hidden_layers: 4}",
                                     "global_batch_size: 16, seq_length: 512", "megatron-core"));
  questions.push_back(small_question("{node: l40s-8x}", gpt,
                                     "global_batch_size: 32, seq_length: 256, collectives: messages", "pytorch-ddp"));
  questions.push_back(
      small_question("{node: dgx-a100}", "resnet50", "global_batch_size: 64, precision: fp16", "pytorch-ddp"));
  questions.push_back(small_question("{node: tpu-v4-host, nodes: 8, fabric: {base: tpu-v4-torus, slices: 2}}",
                                     "{base: llama-3-8b, num_hidden_layers: 4}",
                                     "global_batch_size: 64, seq_length: 512, precision: bf16, pipeline_parallel: 1",
                                     "jax"));
  return questions;
}

std::vector<PlanPoint> all_points(const PlanSpace& space) {
  std::vector<PlanPoint> all;
  for (const PlanPoint& group : space.groups())
    for (PlanPoint& point : space.points(group)) all.push_back(std::move(point));
  return all;
}

double simulated_step(const Scenario& s, Result& r) {
  r = simulate(s);
  return r.step_time.value;
}

/// Simulates `most` random plans of each question, and compares them with their floors.
void compare_with_floors(unsigned seed, int most) {
  std::mt19937 random(seed);
  int compared = 0;
  double sum_of_shares = 0;
  for (const PlanQuestion& question : unlike_questions()) {
    const Scenario& s = question.base;
    PlanSpaceOptions options;
    options.offload = true;
    const PlanSpace space(question, options);
    PlanJudge judge(s, space);
    std::vector<PlanPoint> points = all_points(space);
    REQUIRE(points.size() > 4);
    std::shuffle(points.begin(), points.end(), random);
    int compared_here = 0;
    for (std::size_t i = 0; i < points.size() && compared_here < most; ++i) {
      CAPTURE(s.cluster.node.name, s.model.entry.name, space.words(points[i]));
      const JudgedPlan judged = judge.judge(points[i]);
      if (!judged.error.empty() || judged.memory.peak.value > judge.capacity()) continue;
      Result r;
      CHECK(judged.floor <= simulated_step(judge.scenario(points[i]), r));
      CHECK(judge.group_floors({points[i]}).front() <= r.step_time.value);
      CHECK(judged.floor > 0);
      if (judged.memory.exact)
        CHECK(judged.memory.peak.value == Approx(r.memory.peak.value).epsilon(1e-12));
      else
        CHECK(judged.memory.peak.value <= r.memory.peak.value * (1 + 1e-12));
      sum_of_shares += judged.floor / r.step_time.value;
      ++compared_here;
      ++compared;
    }
  }
  INFO(compared << " plans, mean floor " << sum_of_shares / compared << " of the step");
  CHECK(compared > 4 * most);
  // The floor counts no exchanges without a model of NCCL, such as those of TPUs, and not that exchanges slow kernels, in
  // torchtitan twofold.
  CHECK(sum_of_shares / compared > 0.76);
}

}  // namespace

TEST_CASE("no simulated step is shorter than its floor, and the judged memory is the simulated one", "[search]") {
  compare_with_floors(11, 20);
}

TEST_CASE("no simulated step of thousands of plans is shorter than its floor", "[.deep]") {
  for (const unsigned seed : {1U, 2U, 3U}) compare_with_floors(seed, 200);
}

TEST_CASE("schedules that defer weight gradients still sum all gradients", "[search][pipeline]") {
  const auto bytes_sent = [](const char* schedule) {
    const Scenario s = read_scenario_text(
        "cluster: {node: dgx-a100}\nmodel: {base: llama-3-8b, num_hidden_layers: 4}\n"
        "plan: {global_batch_size: 32, seq_length: 256, micro_batch_size: 2, pipeline_parallel: 2, pipeline: "
        "{schedule: " +
            std::string(schedule) + "}}\nsoftware: torchtitan\n",
        "small.yaml", {{"plan.data_parallel.zero_stage", "0"}});
    Result r;
    simulated_step(s, r);
    return r.bytes_total.value;
  };
  const double expected_bytes = bytes_sent("1f1b");
  CHECK(expected_bytes > 0);
  for (const char* schedule : {"gpipe", "zb-auto", "zb-h1", "zb-2p"})
    CHECK(bytes_sent(schedule) == Approx(expected_bytes).epsilon(1e-12));
}

TEST_CASE("a plan that the search simulates gives the result of the same plan from a file", "[search]") {
  const PlanQuestion question = unlike_questions()[1];
  const Scenario& s = question.base;
  const PlanSpace space(question);
  PlanJudge judge(s, space);
  int compared = 0;
  const std::vector<PlanPoint> points = all_points(space);
  for (std::size_t i = 0; i < points.size(); i += points.size() / 12) {
    CAPTURE(space.words(points[i]));
    Scenario with_section = s;
    *with_section.document.find("plan") = space.section(points[i]);
    const JudgedPlan judged = judge.judge(points[i]);
    if (!judged.error.empty()) {
      CHECK_THROWS_AS(plan(read_again(with_section, {})), UserError);
      continue;
    }
    const Scenario from_file = read_again(with_section, {});
    Result by_search, by_file;
    simulated_step(judge.scenario(points[i]), by_search);
    simulated_step(from_file, by_file);
    by_search.wall_s.value = by_file.wall_s.value = 0;
    CHECK(to_json(by_search) == to_json(by_file));
    ++compared;
  }
  CHECK(compared > 3);
}

TEST_CASE("the search writes and removes the key of every degree of parallelism", "[search]") {
  for (const SearchedDegree& degree : searched_degrees()) {
    const std::string path = degree.key, key = path.substr(0, path.find('.'));
    CAPTURE(path);
    PlanPoint p;
    p.*degree.member = 2;
    const Node section = plan_section(Node::empty_map(Place::named("test")), p, 1, 8);
    const Node* written = section.find(key);
    REQUIRE(written);
    if (key != path) written = written->find(path.substr(key.size() + 1));
    REQUIRE(written);
    CHECK(written->scalar == "2");
    CHECK_FALSE(without_choices(section).find(key));
  }
}

TEST_CASE("point_of keeps the word of plan.recompute", "[search]") {
  for (const std::string recompute : {"none", "selective", "full", "operators"}) {
    const Scenario s = read_scenario(
        parse_document("cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\nsoftware: torchtitan\n"
                       "plan: {micro_batch_size: 4, seq_length: 256, recompute: " +
                           recompute + "}\n",
                       "small.yaml"),
        "small");
    CHECK(point_of(s).recompute == recompute);
  }
}

TEST_CASE("the reader of scenarios refuses every plan that the space leaves out", "[search]") {
  const PlanQuestion question = small_question("{node: dgx-a100}", "{base: gpt2, n_layer: 4}",
                                               "global_batch_size: 12, seq_length: 128", "megatron-core");
  const PlanSpace space(question);
  const std::vector<PlanPoint> listed = space.groups();
  int left_out = 0;
  for (const int tensor : {1, 2, 3, 4, 5, 8})
    for (const int pipeline : {1, 2, 3, 4, 5, 8})
      for (const int micro : {1, 2, 3, 5, 12}) {
        const bool is_listed = std::ranges::any_of(listed, [&](const PlanPoint& p) {
          return p.tensor == tensor && p.pipeline == pipeline && p.micro_batch == micro;
        });
        if (is_listed) continue;
        CAPTURE(tensor, pipeline, micro);
        ++left_out;
        const auto read = [&] {
          plan(read_again(question.base, {{"plan.data_parallel", "{}"},
                                          {"plan.tensor_parallel", fmt::format("{}", tensor)},
                                          {"plan.pipeline_parallel", fmt::format("{}", pipeline)},
                                          {"plan.micro_batch_size", fmt::format("{}", micro)}}));
        };
        CHECK_THROWS_AS(read(), UserError);
      }
  CHECK(left_out > 50);
  for (PlanPoint p : all_points(space)) {  // with stages of ZeRO that no plan of its group has
    const std::vector<PlanPoint> listed_points = space.points(p);
    for (const ZeroStage zero : {ZeroStage::gradients, ZeroStage::parameters}) {
      p.zero = zero;
      const auto is_same_choice = [&p](const PlanPoint& q) { return q.zero == p.zero && q.schedule == p.schedule; };
      if (std::ranges::any_of(listed_points, is_same_choice) || space.data(p) == 1) continue;
      CAPTURE(space.words(p));
      CHECK_THROWS_AS(read_with_plan(question.base, space.section(p)), UserError);
      ++left_out;
    }
  }
  CHECK(left_out > 200);
}

TEST_CASE("the space has ZeRO 3 with and without resharding, and their times or peaks differ", "[search]") {
  const PlanQuestion question =
      small_question("{node: dgx-a100}", "{base: gpt2, n_layer: 4}", "global_batch_size: 16, seq_length: 128", "plain");
  const PlanSpace space(question);
  PlanJudge judge(question.base, space);
  std::set<std::int64_t> micro_batch_counts;
  for (const PlanPoint& group : space.groups()) {
    if (space.data(group) != 8) continue;
    const std::int64_t micro_batches = 16 / (group.micro_batch * 8);
    micro_batch_counts.insert(micro_batches);
    std::set<std::pair<bool, bool>> kinds;
    std::set<std::pair<double, double>> answers;
    for (const PlanPoint& p : space.points(group)) {
      if (p.zero != ZeroStage::parameters) continue;
      kinds.emplace(p.reshard, p.sync_last);
      if (group.recompute != "none") continue;
      Result r;
      simulated_step(judge.scenario(p), r);
      answers.emplace(r.step_time.value, r.memory.peak.value);
    }
    CAPTURE(space.words(group));
    CHECK(kinds.size() == (micro_batches == 1 ? 2U : 4U));
    if (group.recompute == "none") CHECK(answers.size() == kinds.size());
  }
  CHECK(micro_batch_counts == std::set<std::int64_t>{1, 2});
}

TEST_CASE("groups of ZeRO 3 are all replicas, those of a node, or those of a slice of chips", "[search]") {
  std::set<std::pair<int, int>> groups;  // tensor ranks, replicas of a group
  const PlanQuestion question = unlike_questions().back();
  for (const PlanPoint& point : all_points(PlanSpace(question, {})))
    if (point.zero == ZeroStage::parameters) groups.emplace(point.tensor, point.zero_group);
  for (const auto& [tensor, group] : std::vector<std::pair<int, int>>{{1, 0}, {1, 4}, {1, 16}, {2, 2}, {2, 8}}) {
    CAPTURE(tensor, group);
    CHECK(groups.contains({tensor, group}));
  }
}

TEST_CASE("the search finds the least step time of all plans", "[search]") {
  const std::vector<PlanQuestion> spaces{
      small_question("{node: dgx-a100}", "{base: gpt2, n_layer: 4}", "global_batch_size: 8, seq_length: 128",
                     "megatron-core"),
      small_question("{node: {base: dgx-1v, gpu: {memory_capacity: 3 GiB}}}", "{base: gpt2, n_layer: 4}",
                     "global_batch_size: 8, seq_length: 256, precision: fp16", "plain")};
  for (const PlanQuestion& question : spaces) {
    const Scenario& s = question.base;
    PlanSpaceOptions few_choices;
    few_choices.vary = {{"plan.pipeline.schedule", {"1f1b", "interleaved-1f1b"}},
                        {"plan.micro_batch_size", {"1", "2"}}};
    const PlanSpace space(question, few_choices);
    Journal nowhere({});
    PlanRunner runner(s, space, nowhere);
    const PlanSearch found = search_plans(runner, space, space.groups(), {}, {});
    REQUIRE(found.best());
    CHECK(found.proved);
    PlanRunner exhaustive_runner(s, space, nowhere);
    const std::vector<PlanPoint> points = all_points(space);
    CHECK(found.plans == points.size());
    double least = 1e30;
    for (const PlanOutcome& outcome : exhaustive_runner.outcomes(points))
      if (outcome.good()) least = std::min(least, outcome.step_time);
    CHECK(found.best()->outcome.step_time == least);
    CHECK(found.runs < points.size());
  }
}

TEST_CASE("a search whose --vary names zb-auto chooses its limit of activations", "[search]") {
  const PlanQuestion question = small_question("{node: dgx-a100}", "{base: gpt2, n_layer: 8}",
                                               "global_batch_size: 16, seq_length: 512", "megatron-core");
  const auto best = [&question](const std::vector<std::string>& schedules, const std::vector<std::string>& limits) {
    PlanSpaceOptions choices;
    choices.vary = {
        {"plan.pipeline.schedule", schedules}, {"plan.pipeline_parallel", {"8"}}, {"plan.micro_batch_size", {"1"}}};
    if (!limits.empty()) choices.vary.push_back({"plan.pipeline.activation_limit", limits});
    const PlanSpace space(question, choices);
    Journal nowhere({});
    PlanRunner runner(question.base, space, nowhere);
    const PlanSearch found = search_plans(runner, space, space.groups(), {}, {});
    REQUIRE(found.best());
    return std::pair{found.best()->outcome.step_time, space.words(found.best()->point)};
  };
  const auto [fixed, words] = best({"zb-h1"}, {});
  CHECK(best({"zb-auto"}, {}).first == Approx(fixed).epsilon(1e-9));
  const auto [solved, solved_words] = best({"zb-auto"}, {"1", "2"});
  CHECK(solved < fixed);
  CHECK_THAT(solved_words, Catch::Contains("zb-auto") && Catch::Contains("pipeline.activation_limit 2"));
}

}  // namespace scenarios_test_plan_search
