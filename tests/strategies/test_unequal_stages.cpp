// Stages with different numbers of ranks: which rank sends what to which, and steps that equal those of one device.
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "numeric_tasks.hpp"
#include "split_steps.hpp"
#include "strategies/step/stage_messages.hpp"
#include "tests/cases.hpp"

namespace strategies_test_unequal_stages {

using namespace trainyard;
using namespace trainyard::test;

namespace {

using Widths = std::vector<std::pair<int, int>>;  // {tensor, data} of each stage

/// Returns a step on stages of these widths.
SplitStep stages(const Widths& widths, bool sequence = false) {
  SplitStep s;
  s.mesh.pipeline = static_cast<int>(widths.size());
  int next = 0;
  for (const auto& [tensor, data] : widths) {
    s.mesh.widths.push_back({tensor, data, next});
    next += tensor * data;
    Sharding sharding;
    sharding.tensor = tensor;
    sharding.sequence = sequence && tensor > 1;
    s.stage_shardings.push_back(sharding);
  }
  s.micro_batches = 4;
  return s;
}

/// Returns the step with this split of the linear layers on every stage.
SplitStep with_linear_split(SplitStep s, LinearSplit linear_split) {
  for (Sharding& sharding : s.stage_shardings) sharding.linear_split = linear_split;
  return s;
}

/// Returns a plan with one layer per stage. `parts`: true if each tensor rank of a stage has a part of its output.
TrainingPlan bare_plan(const SplitStep& s, const std::vector<bool>& parts) {
  TrainingPlan plan;
  plan.mesh = s.mesh;
  Network network;
  for (std::size_t stage = 0; stage < s.mesh.widths.size(); ++stage) {
    network.layers.emplace_back().output_in_parts = parts[stage];
    plan.stages.emplace_back().chunks = {{static_cast<int>(stage)}};
  }
  plan.network = std::make_shared<const Network>(std::move(network));
  return plan;
}

}  // namespace

TEST_CASE("ranks of unequal stages are numbered within their stages", "[unequal-stages]") {
  Mesh mesh;
  mesh.pipeline = 3;
  mesh.widths = {{1, 1, 6}, {2, 2, 0}, {1, 2, 4}};  // the largest stage has the first ranks
  CHECK(mesh.ranks() == 7);
  for (int rank = 0; rank < 7; ++rank) CHECK(mesh.rank(mesh.coordinates(rank)) == rank);
  CHECK(mesh.coordinates(3) == Coordinates{1, 0, 1, 1});
  CHECK(mesh.group(2, Axis::tensor) == std::vector<int>{2, 3});
  CHECK(mesh.group(5, Axis::tensor) == std::vector<int>{5});
  CHECK(mesh.replicas(2) == std::vector<int>{0, 2});
  CHECK(mesh.replicas(5) == std::vector<int>{4, 5});
  CHECK(mesh.stage(1) == std::vector<int>{0, 1, 2, 3});
  CHECK(mesh.stage(6) == std::vector<int>{6});
}

TEST_CASE("a rank receives each of its samples once, from ranks that have them", "[unequal-stages]") {
  for (const auto& [before, after] : {std::pair{std::pair{1, 2}, std::pair{4, 3}}, {{4, 3}, {1, 2}}, {{2, 4}, {2, 2}}})
    for (const bool parts_before : {false, true})
      for (const bool parts_after : {false, true}) {
        const SplitStep s = stages({before, after});
        const TrainingPlan plan = bare_plan(s, {parts_before, parts_after});
        CAPTURE(s.mesh.in_words(), parts_before, parts_after);
        std::map<std::pair<int, int>, double> sent;
        double all = 0;
        for (int rank = 0; rank < before.first * before.second; ++rank)
          for (const StageMessage& m : stage_messages(plan, rank, 1, true)) {
            CHECK(sent.emplace(std::pair{rank, m.peer}, m.share).second);
            CHECK(m.share == Approx(static_cast<double>(m.part.count) / m.part.chunks));
            all += m.share;
          }
        // Each rank of the next stage takes a whole part, in units of a rank of the stage before.
        const double taken =
            (parts_before ? before.first : 1) * before.second * (parts_after ? 1.0 : static_cast<double>(after.first));
        CHECK(all == Approx(taken));
        for (int rank = before.first * before.second; rank < plan.ranks(); ++rank) {
          std::vector<int> times(1000, 0);
          for (const StageMessage& m : stage_messages(plan, rank, 0, false)) {
            CHECK(sent.erase({m.peer, rank}) == 1);
            for (int i = 1000 * m.part.chunk / m.part.chunks; i < 1000 * (m.part.chunk + m.part.count) / m.part.chunks;
                 ++i)
              ++times[static_cast<std::size_t>(i)];
          }
          CHECK(std::count(times.begin(), times.end(), 1) == 1000);
        }
        CHECK(sent.empty());
      }
}

TEST_CASE("a step of unequal stages computes the step of one device", "[unequal-stages][parallel-values]") {
  for (const std::string schedule : {"naive", "gpipe", "1f1b", "zb-h1"}) {
    for (const auto& widths : std::vector<Widths>{{{1, 2}, {1, 1}},
                                                  {{1, 1}, {2, 2}, {4, 1}},
                                                  {{1, 3}, {1, 2}, {2, 1}},
                                                  {{2, 1}, {1, 6}},
                                                  {{2, 1}, {1, 1}}}) {
      SplitStep s = stages(widths);
      s.schedule = schedule;
      s.steps = 2;
      check(small_mlp(MlpLoss::mean_squared_error, 6), with_linear_split(s, LinearSplit::columns));
      if (s.mesh.widest(Axis::tensor) > 2) continue;  // some networks have sizes that 4 does not divide
      check(small_mlp(MlpLoss::softmax_cross_entropy, 6), with_linear_split(s, LinearSplit::rows));
      check(small_llama(6), s);
      s.overlap_pipeline = s.overlap_gradients = false;
      check(small_gpt2(false, 6), s);
    }
  }
}

TEST_CASE("first and last stage of unequal width sum the gradients of a tied weight", "[unequal-stages]") {
  for (const auto& widths : std::vector<Widths>{
           {{1, 2}, {1, 1}}, {{2, 1}, {1, 2}}, {{1, 1}, {2, 3}}, {{1, 3}, {2, 2}, {2, 1}}, {{2, 2}, {2, 2}}}) {
    SplitStep s = stages(widths);
    s.steps = 2;
    check(small_gpt2(true, 6), s);
    s.overlap_gradients = false;
    check(small_gpt2(true, 6), s);
  }
}

TEST_CASE("unequal stages with sequence parallelism compute the step of one device", "[unequal-stages]") {
  for (const auto& widths :
       std::vector<Widths>{{{2, 1}, {1, 2}}, {{1, 1}, {2, 3}}, {{2, 3}, {2, 1}, {1, 2}}, {{2, 2}, {2, 2}}}) {
    check(small_llama(6), stages(widths, true));
    check(small_gpt2(false, 6), stages(widths, true));
  }
}

TEST_CASE("random unequal stages compute the step of one device", "[unequal-stages]") {
  std::mt19937 random(23);
  const auto below = [&random](unsigned n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < test::cases(60); ++i) {
    Widths widths;
    for (int stage = 2 + below(3); stage > 0; --stage) widths.emplace_back(1 << below(2), 1 + below(3));
    SplitStep s = stages(widths, below(2) == 0);
    s.micro_batches = 1 + below(4);
    s.steps = 1 + below(2);
    s.overlap_gradients = below(2) == 0;
    s.overlap_pipeline = below(2) == 0;
    s.whole_tensors = below(2) == 0;
    s.bucket = below(2) == 0 ? 100 : 1000;
    for (Sharding& sharding : s.stage_shardings) sharding.overlap = below(2) == 0;
    CAPTURE(i);
    check(below(2) == 0 ? small_llama(6) : small_gpt2(below(2) == 0, 6), s);
  }
}

}  // namespace strategies_test_unequal_stages
