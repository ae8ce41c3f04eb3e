// Stages on different numbers of devices, and a split for each layer: the search finds the best of all divisions.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/layer_pieces.hpp"
#include "scenarios/src/search/layer_plan.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_layer_plan {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

StageCosts random_costs(std::mt19937& draw, int layers, std::size_t shapes) {
  StageCosts costs;
  for (int from = 0; from < layers; ++from) {
    auto& stages_from = costs.emplace_back();
    for (int to = from + 1; to <= layers; ++to) {
      auto& cells = stages_from.emplace_back(shapes);
      for (auto& cell : cells)
        if (draw() % 8 != 0)
          cell = StageCost{static_cast<double>(draw() % 50 + 1) * (to - from), static_cast<double>(draw() % 10),
                           static_cast<double>(draw() % 4)};
    }
  }
  return costs;
}

/// Returns true if every stage fits: under 1F1B the n-th stage from the end has min(n, micro_batches) micro-batches.
bool stages_fit(const StageCosts& costs, const std::vector<StageChoice>& stages, int micro_batches, double capacity) {
  int to_end = static_cast<int>(stages.size());
  return std::ranges::all_of(stages, [&](const StageChoice& stage) {
    const auto& widths =
        costs[static_cast<std::size_t>(stage.from)][static_cast<std::size_t>(stage.to - stage.from - 1)];
    const StageCost& cost = *widths[static_cast<std::size_t>(stage.submesh)];
    return cost.fixed_bytes + cost.micro_batch_bytes * std::min(to_end--, micro_batches) <= capacity;
  });
}

/// Returns the least time of all divisions; kImpossible if no division fits.
double least_time(const StageCosts& costs, const std::vector<Submesh>& shapes, int devices, int micro_batches,
                  double capacity) {
  double best = kImpossible;
  std::vector<StageChoice> stages;
  const std::function<void(int, int)> add_stage = [&](int from, int devices_left) {
    if (from == static_cast<int>(costs.size())) {
      if (devices_left == 0 && stages_fit(costs, stages, micro_batches, capacity))
        best = std::min(best, pipeline_time(costs, stages, micro_batches));
      return;
    }
    for (int to = from + 1; to <= static_cast<int>(costs.size()); ++to)
      for (int shape = 0; shape < static_cast<int>(shapes.size()); ++shape) {
        const int count = shapes[static_cast<std::size_t>(shape)].count();
        if (count > devices_left || !costs[static_cast<std::size_t>(from)][static_cast<std::size_t>(to - from - 1)]
                                          [static_cast<std::size_t>(shape)])
          continue;
        stages.push_back({from, to, shape});
        add_stage(to, devices_left - count);
        stages.pop_back();
      }
  };
  add_stage(0, devices);
  return best;
}

PlanQuestion layer_question(const std::string& cluster, const std::string& model, const std::string& plan) {
  return read_plan_question(
      parse_document("cluster: " + cluster + "\nmodel: " + model + "\nplan: {" + plan + "}\n", "layers.yaml"),
      "layers");
}

/// Checks that each layer and each device belongs to exactly one stage.
void check_division(const LayerDivision& division, int layers, int gpus) {
  std::vector<int> ranks;
  int next_layer = 0;
  for (const LayerStage& stage : division.stages) {
    CHECK(stage.from == next_layer);
    next_layer = stage.to;
    CHECK(static_cast<int>(stage.ranks.size()) == stage.tensor * stage.data);
    ranks.insert(ranks.end(), stage.ranks.begin(), stage.ranks.end());
  }
  CHECK(next_layer == layers);
  std::sort(ranks.begin(), ranks.end());
  std::vector<int> all(static_cast<std::size_t>(gpus));
  std::iota(all.begin(), all.end(), 0);
  CHECK(ranks == all);
}

}  // namespace

TEST_CASE("parts of a node divide each other, and whole nodes go together", "[layer-plan]") {
  CHECK(submeshes(3, 8) == std::vector<Submesh>{{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 8}, {3, 8}});
  CHECK(submeshes(1, 6) == std::vector<Submesh>{{1, 1}, {1, 3}, {1, 6}});
  CHECK(submeshes(2, 1) == std::vector<Submesh>{{1, 1}, {2, 1}});
}

TEST_CASE("the division of layers and devices is as fast as the fastest of all divisions", "[layer-plan]") {
  std::mt19937 draw(5);
  int solved_cases = 0, unsolvable_cases = 0;
  for (int i = 0; i < 300; ++i) {
    const std::vector<Submesh> shapes = submeshes(1 + static_cast<int>(draw() % 2), i % 3 == 0 ? 2 : 4);
    const int devices = shapes.back().count(), layers = 2 + static_cast<int>(draw() % 4),
              micro_batches = 1 + static_cast<int>(draw() % 6);
    const double capacity = draw() % 3 == 0 ? 4 : 30;
    const StageCosts costs = random_costs(draw, layers, shapes.size());
    const double least = least_time(costs, shapes, devices, micro_batches, capacity);
    const auto division = divide_stages(costs, shapes, devices, micro_batches, capacity);
    CAPTURE(i, layers, devices, micro_batches, capacity);
    REQUIRE(division.has_value() == (least < kImpossible));
    (division ? solved_cases : unsolvable_cases) += 1;
    if (!division) continue;
    CHECK(division->time == least);
    CHECK(stages_fit(costs, division->stages, micro_batches, capacity));
  }
  CHECK(solved_cases > 100);
  CHECK(unsolvable_cases > 10);
}

TEST_CASE("consecutive layers get splits as cheap as the cheapest of all lists", "[layer-plan]") {
  std::mt19937 draw(9);
  constexpr LinearSplit kSplits[] = {LinearSplit::columns, LinearSplit::rows, LinearSplit::replicated};
  for (int i = 0; i < 200; ++i) {
    const int layers = 1 + static_cast<int>(draw() % 5);
    std::vector<LinearShardingCosts> costs(static_cast<std::size_t>(layers));
    for (LinearShardingCosts& layer : costs)
      for (double& cost : layer) cost = draw() % 9 == 0 ? kImpossible : static_cast<double>(draw() % 100);
    const MlpShape shape{std::vector<int>(static_cast<std::size_t>(layers) + 1, 8)};
    double least = kImpossible;
    unsigned lists = 1;
    for (int layer = 0; layer < layers; ++layer) lists *= 3;
    for (unsigned number = 0; number < lists; ++number) {
      Sharding sharding;
      sharding.tensor = 2;
      unsigned rest = number;
      for (int layer = 0; layer < layers; ++layer, rest /= 3) sharding.linear_splits.push_back(kSplits[rest % 3]);
      double cost = 0;
      for (int layer = 0; layer < layers; ++layer)
        cost +=
            costs[static_cast<std::size_t>(layer)][static_cast<std::size_t>(linear_sharding(shape, layer, sharding))];
      least = std::min(least, cost);
    }
    const LinearChain chain = cheapest_shardings(costs);
    CAPTURE(i, layers);
    CHECK(chain.cost == least);
    if (chain.cost == kImpossible) continue;
    Sharding sharding;
    sharding.tensor = 2;
    sharding.linear_splits = splits_of(chain.shardings);
    for (int layer = 0; layer < layers; ++layer)
      CHECK(linear_sharding(shape, layer, sharding) == chain.shardings[static_cast<std::size_t>(layer)]);
  }
}

namespace {

/// Checks that the answer's best plan is no slower than its other plans, the best plan of `trainyard plan`, and data
/// parallelism alone.
void check_best(const PlanQuestion& question, const LayerPlanAnswer& answer) {
  std::vector<double> steps{answer.division.step};
  if (answer.even) steps.push_back(answer.even->step);
  if (answer.own_step > 0 && answer.own_leaves_headroom) steps.push_back(answer.own_step);
  const PlanAnswer plans = answer_plan(question, {});
  REQUIRE_FALSE(plans.best.empty());
  steps.push_back(plans.best.front().outcome.step_time);
  REQUIRE(answer.plan);
  CHECK(answer.plan->outcome.step_time == plans.best.front().outcome.step_time);
  for (const std::optional<PlanRow>& row : {answer.plan, answer.data})
    if (row) steps.push_back(row->outcome.step_time);
  CHECK(answer.best_step() == *std::ranges::min_element(steps));
  CHECK(answer.division_is_best() == (answer.division.step == answer.best_step()));
  if (answer.even) CHECK(answer.division.step <= answer.even->step);
}

PlanQuestion wide_narrow(const Overrides& overrides = {}) {
  const std::string file = shipped_file("scenarios/plan-wide-narrow.yaml").string();
  return read_plan_question(read_document(file), "plan-wide-narrow", overrides);
}

}  // namespace

TEST_CASE("the wide half of a network gets more devices, which is faster than stages on equal numbers of devices",
          "[layer-plan]") {
  const PlanQuestion question = wide_narrow();
  const LayerPlanAnswer answer = plan_layers(question);
  check_division(answer.division, 9, 8);
  REQUIRE(answer.even);
  check_division(*answer.even, 9, 8);
  CHECK(answer.division.step < 0.9 * answer.even->step);
  CHECK(answer.division.step < 0.9 * answer.own_step);
  CHECK(answer.division.estimate == Approx(answer.division.step).epsilon(0.03));
  for (const LayerDivision* division : {&answer.division, &*answer.even})
    CHECK(simulate(read_scenario(division->document, "found")).step_time.value ==
          Approx(division->step).epsilon(1e-12));
  std::size_t most = 0, least = 8;
  for (const LayerStage& stage : answer.division.stages) {
    most = std::max(most, stage.ranks.size());
    least = std::min(least, stage.ranks.size());
  }
  CHECK(most > least);
  CHECK(answer.division.stages.back().ranks.size() == least);  // the narrow half
  // Larger micro-batches on replicas of the whole network take less.
  check_best(question, answer);
  CHECK_FALSE(answer.division_is_best());
  REQUIRE(answer.data);
  CHECK(answer.data->outcome.step_time < answer.division.step);
  const std::string screen = layer_plan_screen(answer);
  CHECK_THAT(screen.substr(0, screen.find("stages")), Contains(answer.plan->plan));
}

TEST_CASE("layers split over all devices win if replicas would have too few samples", "[layer-plan]") {
  const PlanQuestion question = wide_narrow({{"plan.global_batch_size", "2048"}, {"plan.micro_batch_size", "512"}});
  const LayerPlanAnswer answer = plan_layers(question);
  check_best(question, answer);
  CHECK(answer.division_is_best());
  CHECK_THAT(layer_plan_screen(answer), Contains("faster than the plan that `plan` finds"));
}

TEST_CASE("no list of splits makes a stage faster than the one that was chosen", "[layer-plan]") {
  const PlanQuestion question = layer_question("{nodes: 1, node: {base: dgx-a100, gpu: {count: 2}}}",
                                               "{mlp: {widths: [4096, 16384, 512, 512, 8192]}}",
                                               "global_batch_size: 256, micro_batch_size: 128, precision: bf16");
  LayerPlanOptions no_comparison;
  no_comparison.compare = false;
  const LayerPlanAnswer answer = plan_layers(question, no_comparison);
  LayerPieces pieces(*question.own);
  constexpr LinearSplit kSplits[] = {LinearSplit::columns, LinearSplit::rows, LinearSplit::replicated};
  int checked = 0;
  for (const LayerDivision* division : {&answer.division, &*answer.even})
    for (const LayerStage& stage : division->stages) {
      if (stage.tensor == 1) continue;
      ++checked;
      const StageMesh mesh{stage.tensor == 2 ? 1 : 0, stage.tensor, stage.data};
      std::vector<LinearSplit> chosen_splits(4, LinearSplit::replicated);
      std::copy(stage.splits.begin(), stage.splits.end(), chosen_splits.begin() + stage.from);
      const PieceTimes best = pieces.times(stage.from, stage.to, mesh, chosen_splits);
      const double chosen = best.time + best.tail / answer.micro_batches;
      for (unsigned number = 0; number < 81; ++number) {
        std::vector<LinearSplit> splits;
        unsigned rest = number;
        for (int layer = 0; layer < 4; ++layer, rest /= 3) splits.push_back(kSplits[rest % 3]);
        const PieceTimes other = pieces.times(stage.from, stage.to, mesh, splits);
        CAPTURE(number, in_words(splits), in_words(stage.splits));
        CHECK(other.time + other.tail / answer.micro_batches >= chosen * (1 - 1e-3));
      }
    }
  CHECK(checked > 0);
}

TEST_CASE("layers of a transformer are divided too, and equal layers are simulated once", "[layer-plan]") {
  const PlanQuestion question = layer_question(
      "{nodes: 2, node: dgx-a100, fabric: nonblocking}", "{base: gpt2, n_layer: 40}",
      "global_batch_size: 64, micro_batch_size: 2, seq_length: 256, precision: bf16, tensor_parallel: 4");
  LayerPlanOptions no_comparison;
  no_comparison.compare = false;
  const LayerPlanAnswer answer = plan_layers(question, no_comparison);
  check_division(answer.division, 42, 16);
  CHECK(answer.micro_batch == 8);
  CHECK(answer.simulated < 100);
  CHECK(answer.division.step <= answer.own_step * 1.05);
  // Embedding and head share a weight, although their stages may have different numbers of devices.
  CHECK(simulate(read_scenario(answer.division.document, "found")).step_time.value ==
        Approx(answer.division.step).epsilon(1e-12));
}

TEST_CASE("plan.linear_split splits each layer of an MLP", "[layer-plan][scenario]") {
  const auto step = [](const std::string& split) {
    return simulate(read_scenario_text("cluster: {nodes: 1, node: dgx-a100}\n"
                                       "model: {mlp: {widths: [2048, 8192, 2048, 8192, 2048]}}\n"
                                       "plan: {micro_batch_size: 256, global_batch_size: 512, tensor_parallel: 4, "
                                       "data_parallel: {size: 1}, idle_devices: allowed, linear_split: " +
                                           split + "}\n",
                                       "split.yaml"))
        .step_time.value;
  };
  CHECK(step("[columns, rows, columns, rows]") == step("pairs"));
  CHECK(step("[columns, columns, columns, columns]") == step("columns"));
  CHECK(step("[rows, rows, rows, rows]") == step("rows"));
  CHECK(step("replicated") > step("pairs"));
  CHECK_THROWS_WITH(step("[columns, row]"),
                    Contains("plan.linear_split: unknown split \"row\"; did you mean \"rows\"?"));
  CHECK_THROWS_WITH(step("[columns, rows]"), Contains("plan.linear_split: mlp: splits of 2 layers, but there are 4"));
  CHECK_THROWS_WITH(read_scenario_text("cluster: {nodes: 1, node: dgx-a100}\nmodel: gpt2\nplan: {micro_batch_size: 1, "
                                       "global_batch_size: 8, tensor_parallel: 2, linear_split: rows}\n",
                                       "gpt.yaml"),
                    Contains("plan.linear_split: only the linear layers of an mlp"));
  CHECK_THROWS_WITH(read_scenario_text("cluster: {nodes: 1, node: dgx-a100}\nmodel: {mlp: {widths: [8, 8]}}\nplan: "
                                       "{micro_batch_size: 1, global_batch_size: 8, linear_split: rows}\n",
                                       "one.yaml"),
                    Contains("plan.tensor_parallel, which is 1"));
}

TEST_CASE("a network that cannot be divided is refused with the reason", "[layer-plan]") {
  CHECK_THROWS_WITH(plan_layers(layer_question("{nodes: 64, node: dgx-a100, fabric: nonblocking}", "gpt2",
                                               "global_batch_size: 512, micro_batch_size: 1")),
                    Contains("512 GPUs; at most 256"));
  CHECK_THROWS_WITH(plan_layers(layer_question("{nodes: 1, node: {base: dgx-a100, gpu: {memory_capacity: 1 GiB}}}",
                                               "{mlp: {widths: [65536, 65536, 65536]}}",
                                               "global_batch_size: 64, micro_batch_size: 1")),
                    Contains("no division of its 2 layers over 8 GPUs fits into 0.0 of 1.0 GiB"));
}

}  // namespace scenarios_test_layer_plan
