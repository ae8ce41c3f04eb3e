// DualPipe on numbers: two copies of the network, fed from both ends, train as one device does.
#include <catch2/catch.hpp>

#include "numeric_tasks.hpp"
#include "split_steps.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tests/temporary_folder.hpp"

namespace strategies_test_two_copies {

using namespace trainyard;
using namespace trainyard::test;

namespace {

SplitStep both_ends(int data, int stages, int tensor = 1) {
  return with_schedule(split(data, stages, tensor), "dualpipe", 2 * stages);
}

}  // namespace

TEST_CASE("stages at opposite places sum gradients over both copies, and hold experts by themselves", "[two-copies]") {
  Mesh mesh;
  mesh.data = 2;
  mesh.pipeline = 4;
  mesh.expert = 2;
  CHECK(mesh.replicas(0) == std::vector<int>{0, 1});
  mesh.copies = 2;
  CHECK(mesh.opposite_stage(1) == 2);
  for (const int rank : {0, 1, 6, 7}) CHECK(mesh.replicas(rank) == std::vector<int>{0, 1, 6, 7});
  for (const int rank : {2, 3, 4, 5}) CHECK(mesh.replicas(rank) == std::vector<int>{2, 3, 4, 5});
  CHECK(mesh.expert_replicas(0) == std::vector<int>{0, 6});
  CHECK(mesh.expert_replicas(3) == std::vector<int>{3, 5});
  CHECK(mesh.group(6, Axis::expert) == std::vector<int>{6, 7});
  CHECK(mesh.group(6, Axis::data) == std::vector<int>{6, 7});
  mesh.expert_tensor = 1;  // experts in the order of a stage's ranks
  CHECK(mesh.expert_replicas(3) == std::vector<int>{3, 5});
}

TEST_CASE("dualpipe computes the step of one device", "[two-copies][parallel-values]") {
  for (const int stages : {2, 4})
    for (const int extra_micro_batches : {0, 2, 2 * stages})
      for (const bool overlap : {false, true}) {
        SplitStep s = both_ends(1, stages);
        s.micro_batches += extra_micro_batches;
        s.steps = 2;
        s.overlap_pipeline = s.overlap_gradients = overlap;
        check(small_gpt2(), s);  // embedding and head are one weight, on the first and the last stage
        check(small_mlp(), s);
      }
}

TEST_CASE("dualpipe with data, tensor, context and expert parallelism computes the step of one device",
          "[two-copies][parallel-values]") {
  for (const bool pairs : {false, true}) {
    SplitStep s = both_ends(2, 4);
    s.pairs_passes = pairs;
    check(small_llama(), s);
    check(small_mlp(), s);
    s = both_ends(2, 2, 2);
    s.pairs_passes = pairs;
    s.scatter_gather = true;
    check(small_gpt2(), s);
    s.scatter_gather = false;
    s.sharding.sequence = true;
    s.mesh.expert = s.sharding.expert = 2;
    s.mesh.order = {Axis::pipeline, Axis::data, Axis::tensor, Axis::context};
    check(small_mixtral(), s);
    s.mesh.expert_tensor = s.sharding.expert_tensor = 2;
    check(small_mixtral(), s);
    s = both_ends(1, 2);
    s.pairs_passes = pairs;
    s.mesh.context = s.sharding.context = 2;
    check(small_llama(), s);
  }
}

TEST_CASE("dualpipe whose ranks share states over both copies computes the step of one device",
          "[two-copies][parallel-values]") {
  for (const ZeroStage zero : {ZeroStage::optimizer, ZeroStage::parameters})
    for (const int data : {1, 2})
      for (const bool overlap : {false, true}) {
        SplitStep s = both_ends(data, 4);
        s.zero = zero;
        s.steps = 2;
        s.zero_group = data == 2 ? 2 : 0;
        s.overlap_gradients = s.overlap_parameters = s.reshard = overlap;
        s.sync_last = zero == ZeroStage::parameters && !overlap;
        check(small_llama(), s);
        check(small_mlp(), s);
        s.sync_last = false;
        s.optimizer = OffloadDevice::cpu;
        check(small_llama(), s);
      }
}

TEST_CASE("an exchange between the copies that is left out is noticed", "[two-copies][parallel-values]") {
  for (const int data : {1, 2}) {
    const SplitStep s = both_ends(data, 4);
    for (int rank = 0; rank < s.mesh.ranks(); ++rank)
      CHECK_FALSE(receives_of(small_llama(), s, rank, "all-reduce bucket 0").empty());
    const StepOutcome without = simulated_step(small_llama(), s, [](Op& op, int, int, const std::string& name) {
      if (op.kind == Kind::recv && name.ends_with("all-reduce bucket 0")) op.effect = {};
    });
    INFO(without.worst);
    CHECK((without.difference > 1e-8 || !without.error.empty()));
  }
}

TEST_CASE("schedules from files feed both ends as well", "[two-copies][parallel-values][schedule-file]") {
  const test::TemporaryFolder folder;
  SplitStep s = both_ends(1, 2);
  const double seconds = simulated_step(small_gpt2(), s).seconds;
  const PipelineShape shape{2, s.micro_batches, 2};
  s.schedule = folder.write("both.yaml", pipeline_schedule_text(find_pipeline_schedule("dualpipe", shape, {}), shape));
  check(small_gpt2(), s);
  CHECK(simulated_step(small_gpt2(), s).seconds == seconds);
}

}  // namespace strategies_test_two_copies
