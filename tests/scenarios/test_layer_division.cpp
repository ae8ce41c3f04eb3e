// The division of layers into pipeline stages, and the breakdown of each stage.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/layer_division.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "scenarios/src/studies/sweeps/sweep_axes.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_layer_division {

using namespace trainyard;
using namespace trainyard::test;

namespace {

using Time = std::int64_t;
using Times = std::vector<std::vector<Time>>;

/// Returns the time of each part if the layers are cut into parts of these sizes.
std::vector<Time> parts_of(const Times& times, const std::vector<int>& sizes) {
  std::vector<Time> parts;
  std::size_t begin = 0;
  for (std::size_t part = 0; part < sizes.size(); ++part) {
    const auto end = begin + static_cast<std::size_t>(sizes[part]);
    const auto first = times[part].begin();
    parts.push_back(
        std::accumulate(first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(end), Time{0}));
    begin = end;
  }
  return parts;
}

Time slowest(const std::vector<Time>& parts) { return *std::ranges::max_element(parts); }

Time slowest_stage(const Times& times, const std::vector<int>& sizes, int stages) {
  std::vector<Time> sums(static_cast<std::size_t>(stages));
  const std::vector<Time> parts = parts_of(times, sizes);
  for (std::size_t part = 0; part < parts.size(); ++part) sums[part % sums.size()] += parts[part];
  return slowest(sums);
}

/// Visits all ways to cut this number of layers into parts of at least one layer. `sizes` has the parts that are cut.
void for_each_cut(int layers, std::size_t parts, std::vector<int>& sizes,
                  const std::function<void(const std::vector<int>&)>& visit) {
  if (sizes.size() + 1 == parts) {
    sizes.push_back(layers);
    visit(sizes);
    sizes.pop_back();
    return;
  }
  for (int size = 1; size + static_cast<int>(parts - sizes.size()) - 1 <= layers; ++size) {
    sizes.push_back(size);
    for_each_cut(layers - size, parts, sizes, visit);
    sizes.pop_back();
  }
}

std::vector<int> stages_in_turn(std::size_t parts, int stages) {
  std::vector<int> stage_of_part;
  for (std::size_t part = 0; part < parts; ++part) stage_of_part.push_back(static_cast<int>(part) % stages);
  return stage_of_part;
}

/// Returns the least cost of all cuts.
Time least_cost(const Times& times, const std::function<Time(const std::vector<int>&)>& cost) {
  Time best = std::numeric_limits<Time>::max();
  std::vector<int> cut;
  for_each_cut(static_cast<int>(times[0].size()), times.size(), cut,
               [&](const std::vector<int>& sizes) { best = std::min(best, cost(sizes)); });
  return best;
}

Times random_times(std::mt19937& draw, std::size_t parts, std::size_t layers, bool are_alike) {
  const auto pick = [&draw](int below) { return static_cast<Time>(draw() % static_cast<unsigned>(below)); };
  Times times(parts, std::vector<Time>(layers));
  for (std::vector<Time>& part_times : times)
    for (Time& time : part_times) time = pick(4) == 0 ? pick(1000) : 100 + pick(3);
  if (are_alike) std::fill(times.begin() + 1, times.end(), times.front());
  return times;
}

/// Returns the chain of layers of tests/seeds/layer_chain.yaml, with these widths and this division.
Scenario chain(const std::string& widths, const std::string& layers) {
  return read_scenario(shipped_file("tests/seeds/layer_chain.yaml"),
                       {{"model", "{mlp: {widths: " + widths + "}}"}, {"plan.pipeline.layers", layers}});
}

std::vector<int> sizes_of(const Scenario& s) {
  std::vector<int> sizes;
  for (const StagePlan& stage : plan(s).training.stages)
    for (const std::vector<int>& chunk : stage.chunks) sizes.push_back(static_cast<int>(chunk.size()));
  return sizes;
}

Scenario gpt(const std::string& plan) {
  return read_scenario_text(
      "cluster: {nodes: 1, node: dgx-a100}\nmodel: {base: gpt2, n_layer: 8}\n"
      "plan:\n  micro_batch_size: 4\n  global_batch_size: 64\n  seq_length: 512\n  precision: bf16\n"
      "  data_parallel: {size: 1}\n  idle_devices: allowed\n" +
          plan + "software: megatron-2022\n",
      "gpt.yaml");
}

}  // namespace

TEST_CASE("no cut has a faster slowest part than the balanced cut", "[layer-division]") {
  std::mt19937 draw(7);
  for (int i = 0; i < 400; ++i) {
    const std::size_t parts = 1 + draw() % 5, layers = parts + draw() % 7;
    const Times times = random_times(draw, parts, layers, i % 2 == 0);
    CAPTURE(i, times);
    const std::vector<int> cut = balanced_cut(times, stages_in_turn(parts, static_cast<int>(parts)));
    REQUIRE(cut.size() == parts);
    CHECK(std::accumulate(cut.begin(), cut.end(), 0) == static_cast<int>(layers));
    CHECK(*std::ranges::min_element(cut) >= 1);
    const Time best = least_cost(times, [&](const auto& sizes) { return slowest(parts_of(times, sizes)); });
    CHECK(slowest(parts_of(times, cut)) == best);
    // Among the cuts with this slowest part, the balanced cut has the longest quickest part.
    const std::vector<Time> cut_times = parts_of(times, cut);
    const Time quickest = -least_cost(times, [&](const auto& sizes) {
      const std::vector<Time> parts_here = parts_of(times, sizes);
      return slowest(parts_here) == best ? -*std::ranges::min_element(parts_here) : Time{1};
    });
    CHECK(*std::ranges::min_element(cut_times) == quickest);
  }
}

TEST_CASE("with several chunks per stage, a balanced cut balances the sums of the stages", "[layer-division]") {
  std::mt19937 draw(11);
  double sum = 0, best_sum = 0;
  for (int i = 0; i < 100; ++i) {
    const int stages = 2 + static_cast<int>(draw() % 2);
    const std::size_t parts = 2 * static_cast<std::size_t>(stages), layers = parts + 1 + draw() % 6;
    const Times times = random_times(draw, parts, layers, true);
    const std::vector<int> cut = balanced_cut(times, stages_in_turn(parts, stages));
    const Time best = least_cost(times, [&](const auto& sizes) { return slowest_stage(times, sizes, stages); });
    const Time slowest_part = least_cost(times, [&](const auto& sizes) { return slowest(parts_of(times, sizes)); });
    const Time cut_time = slowest_stage(times, cut, stages);
    CAPTURE(i, times, cut);
    CHECK(cut_time >= best);
    CHECK(cut_time <= 2 * slowest_part);
    sum += static_cast<double>(cut_time);
    best_sum += static_cast<double>(best);
  }
  CHECK(sum < 1.1 * best_sum);  // compared with the best cuts; the layers differ by up to ten times
}

TEST_CASE("the balanced cut of a chain gives the shortest step", "[layer-division]") {
  CHECK(sizes_of(chain("[100, 1000, 100, 1000, 100]", "balanced")) == std::vector<int>{2, 2});
  // The last two of seven layers take longer: a cut by number takes 333 ms, a balanced one 312 ms.
  const std::string widths = "[100, 1000, 100, 1000, 100, 1000, 250, 1000]";
  const Scenario balanced = chain(widths, "balanced");
  CHECK(sizes_of(chain(widths, "even")) == std::vector<int>{4, 3});
  CHECK(sizes_of(balanced) == std::vector<int>{5, 2});
  const double step = simulate(balanced).step_time.value;
  CHECK(step < 0.95 * simulate(chain(widths, "even")).step_time.value);
  for (const std::string& cut : layer_cuts(balanced)) {
    CAPTURE(cut);
    CHECK(simulate(chain(widths, cut)).step_time.value >= step);
  }
}

TEST_CASE("embedding and head are among the layers that are balanced", "[layer-division]") {
  const std::string pipeline = "  pipeline_parallel: 4\n  pipeline: {layers: ";
  const Scenario even = gpt(pipeline + "even}\n"), balanced = gpt(pipeline + "balanced}\n");
  CHECK(sizes_of(even) == std::vector<int>{3, 2, 2, 3});
  const std::vector<int> sizes = sizes_of(balanced);
  CHECK(std::accumulate(sizes.begin(), sizes.end(), 0) == 10);
  CHECK(sizes.back() < 3);  // the head takes the time of several layers
  const Result before = simulate(even), after = simulate(balanced);
  CHECK(after.step_time.value < before.step_time.value);
  const auto slowest_compute = [](const Result& r) {
    double most = 0;
    for (const Result::Stage& stage : r.stages) most = std::max(most, stage.breakdown.compute.value);
    return most;
  };
  CHECK(slowest_compute(after) < slowest_compute(before));
  const Scenario interleaved =
      gpt("  pipeline_parallel: 2\n  pipeline: {schedule: interleaved-1f1b, chunks: 2, layers: balanced}\n");
  CHECK(sizes_of(interleaved).size() == 4);
}

TEST_CASE("a balanced division counts the exchanges of tensor ranks", "[layer-division]") {
  const auto read = [](const std::string& layers) {
    return read_scenario(shipped_file("scenarios/llama3-70b-tp8-pp4.yaml"), {{"plan.pipeline.layers", layers}});
  };
  const auto slowest_stage = [](const Scenario& s) {
    double most = 0;
    for (const Result::Stage& stage : simulate(s).stages)
      most = std::max(most, (stage.breakdown.step_time - stage.breakdown.bubble).value);
    return most;
  };
  const Scenario even = read("even"), balanced = read("balanced");
  CHECK(slowest_stage(balanced) <= slowest_stage(even));
  CHECK(simulate(balanced).step_time <= simulate(even).step_time);
}

TEST_CASE("a slower node's stage gets fewer layers", "[layer-division]") {
  const Scenario s = read_scenario_text(
      "cluster:\n  nodes:\n    - {count: 1, node: {base: t4-server, gpu: {count: 1}}}\n"
      "    - {count: 1, node: {base: t4-server, gpu: {count: 1}, gpu_speed: 0.5}}\n  fabric: nonblocking\n"
      "model: {mlp: {widths: [4096, 4096, 4096, 4096, 4096, 4096, 4096]}}\n"
      "plan: {micro_batch_size: 4096, global_batch_size: 16384, precision: fp16, pipeline_parallel: 2,\n"
      "  pipeline: {layers: balanced}}\n",
      "mixed.yaml");
  CHECK(sizes_of(s) == std::vector<int>{4, 2});
}

TEST_CASE("a wrong value of plan.pipeline.layers is refused with the right ones", "[layer-division]") {
  const auto error_of = [](const std::string& pipeline) {
    return user_error([&] { gpt("  pipeline_parallel: 2\n  pipeline: {" + pipeline + "}\n"); });
  };
  CHECK(error_of("layers: balansed") ==
        "gpt.yaml:11:22: plan.pipeline.layers: unknown value \"balansed\"; did you mean \"balanced\"?");
  CHECK(error_of("layers: balanced, ends_count_as_layers: true") ==
        "gpt.yaml:11:54: plan.pipeline.ends_count_as_layers: not with layers: balanced, which counts what each layer "
        "takes");
}

TEST_CASE("the breakdown of each stage sums to the step", "[layer-division][stages]") {
  for (const char* pipeline :
       {"  pipeline_parallel: 4\n", "  pipeline_parallel: 4\n  pipeline: {schedule: gpipe, layers: balanced}\n",
        "  pipeline_parallel: 2\n  tensor_parallel: 2\n  pipeline: {schedule: interleaved-1f1b, chunks: 2}\n",
        "  pipeline_parallel: 4\n  steps: 3\n"}) {
    CAPTURE(pipeline);
    const Scenario s = gpt(pipeline);
    const Result r = simulate(s);
    REQUIRE(r.stages.size() == static_cast<std::size_t>(s.plan.mesh.pipeline));
    int layers = 0;
    for (std::size_t i = 0; i < r.stages.size(); ++i) {
      const Result::Breakdown& b = r.stages[i].breakdown;
      double sum =
          b.compute.value + b.bubble.value + b.optimizer.value + b.input.value + b.framework.value + b.other.value;
      for (const auto& [group, seconds] : b.exposed_communication) sum += seconds;
      CHECK(sum == near(r.step_time.value));
      CHECK(b.bubble.value > 0);
      CHECK(s.plan.mesh.coordinates(b.rank).pipeline == static_cast<int>(i));
      CHECK(s.plan.mesh.coordinates(r.stages[i].memory.rank).pipeline == static_cast<int>(i));
      CHECK(r.stages[i].memory.peak.value <= r.memory.peak.value);
      layers += r.stages[i].layers;
    }
    CHECK(layers == static_cast<int>(s.network.layers.size()));
    const auto drawn_stage =
        std::ranges::find_if(r.stages, [&r](const auto& stage) { return stage.breakdown.rank == r.breakdown.rank; });
    REQUIRE(drawn_stage != r.stages.end());
    CHECK(drawn_stage->breakdown.compute.value == near(r.breakdown.compute.value));
    CHECK(drawn_stage->breakdown.bubble.value == near(r.breakdown.bubble.value));
  }
  CHECK(simulate(gpt("")).stages.empty());
}

}  // namespace scenarios_test_layer_division
