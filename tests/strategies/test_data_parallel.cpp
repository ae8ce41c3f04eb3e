// Data-parallel steps against those of one device, and the buckets of gradients.
#include "models/networks/transformers/transformer.hpp"
#include "strategies/step/training_programs.hpp"
#include "strategies/values/training_values.hpp"
#include "tests/all_reduce_by.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace strategies_test_data_parallel {

using namespace trainyard;
using namespace trainyard::test;

namespace {

struct Setting {
  int ranks = 2, micro_batches = 1, steps = 3;
  std::string algorithm = "ring";
  bool overlap = true, whole_tensors = true, bucket_copy = true, host_buckets = false;
  std::uint16_t wait_kernel = 0;
  Bytes bucket{40};
};

void check_equal(const Setting& s) {
  CAPTURE(s.ranks, s.micro_batches, s.algorithm, s.overlap, s.whole_tensors, s.bucket.value);
  const int global_batch = 840;  // divisible by all tested numbers of ranks and micro-batches
  const TrainingTask task = small_task(global_batch / s.ranks / s.micro_batches, global_batch * s.steps);
  const Network network = network_of(task);
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(network), s.ranks, s.micro_batches);
  plan.steps = s.steps;
  plan.overlap_gradients = s.overlap;
  plan.bucket_copy = s.bucket_copy;
  plan.host_buckets = s.host_buckets;
  plan.copy_kernel = kBucketCopy;
  plan.wait_kernel = s.wait_kernel;
  plan.values = true;
  StagePlan& stage = plan.stages.front();
  stage.buckets = gradient_buckets(network, plan.gradient_element, s.bucket, s.bucket, s.whole_tensors);
  all_reduce_by(plan, s.algorithm);
  stage.optimizer.precision = static_cast<std::uint8_t>(Precision::fp32);
  ClusterMachine machine(star_cluster(s.ranks, BytesPerSecond{1e6}, {1000000}), SoftwareStack{});
  Names names;
  const TrainingPrograms programs(plan, names);
  Values values;
  TrainingValues training(task, plan, values);
  Simulation simulation(machine);
  simulation.add(programs.programs());
  simulation.observe(values);
  simulation.run();
  const Eigen::VectorXd expected = train_plainly(task, global_batch, s.steps);
  double worst = 0;
  bool are_equal = true;
  for (int rank = 0; rank < s.ranks; ++rank) {
    const Eigen::VectorXd replica = training.parameters(rank).all_parameters();
    worst = std::max(worst, largest_difference(expected, replica));
    are_equal &= replica == training.parameters(0).all_parameters();
  }
  CHECK(worst <= 1e-12);
  CHECK(are_equal);
  CHECK(values.hazards().empty());
}

}  // namespace

TEST_CASE("a data-parallel step equals the single-device step on values", "[data-parallel][values]") {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8})
    for (const char* algorithm : {"ring", "binary-tree", "gather-broadcast"})
      check_equal({.ranks = ranks, .algorithm = algorithm});
}

TEST_CASE("a data-parallel step equals the single-device step with any buckets, overlap and micro-batches",
          "[data-parallel][values]") {
  for (const bool overlap : {true, false})
    for (const bool whole_tensors : {true, false})
      for (const double bucket : {1.0, 40.0, 1e9})
        check_equal({.ranks = 4,
                     .micro_batches = 3,
                     .overlap = overlap,
                     .whole_tensors = whole_tensors,
                     .bucket_copy = whole_tensors,
                     .bucket = Bytes{bucket}});
}

TEST_CASE("a data-parallel step with a coordinator and copies in host memory equals the single-device step",
          "[data-parallel][values]") {
  for (const int ranks : {1, 2, 3})
    for (const bool overlap : {true, false})
      for (const bool copies : {true, false})
        check_equal({.ranks = ranks,
                     .overlap = overlap,
                     .bucket_copy = copies,
                     .host_buckets = copies,
                     .wait_kernel = kCycleWait});
}

TEST_CASE("buckets hold every gradient once, in the order of the backward pass", "[data-parallel]") {
  const Network network = mlp_network({{10, 20, 5}}, 4, Precision::fp32);
  const auto elements_of = [](const std::vector<GradientBucket>& buckets) {
    double elements = 0;
    for (const GradientBucket& b : buckets) elements += b.elements;
    return elements;
  };
  const auto tensor_buckets = gradient_buckets(network, Bytes{4}, Bytes{4}, Bytes{1e9}, true);
  // The first bucket closes with the first tensor of the last layer; the second takes the rest.
  REQUIRE(tensor_buckets.size() == 2);
  CHECK(tensor_buckets[0].parts[0].layer == 1);
  CHECK(elements_of(tensor_buckets) == network.parameters());
  const auto split = gradient_buckets(network, Bytes{4}, Bytes{40}, Bytes{100}, false);
  CHECK(split[0].elements == 10);
  for (std::size_t b = 1; b + 1 < split.size(); ++b) CHECK(split[b].elements == 25);
  CHECK(elements_of(split) == network.parameters());
}

TEST_CASE("the buckets of GPT-2 XL have exactly 25 MiB, or as PyTorch's at least 25 MiB of whole tensors",
          "[data-parallel]") {
  const Catalog catalog;
  const Network network = transformer_network(
      read_transformer(catalog.resolve("network", Node::scalar_node("gpt2-xl", nowhere()))), 1, 1024, Precision::bf16);
  REQUIRE(network.parameters() == 1557611200.0);
  constexpr Bytes first{1 << 20}, rest{25 << 20};
  const auto exact = gradient_buckets(network, Bytes{2}, first, rest, false);
  // 1 MiB, then 3,114,173,824 B in pieces of 26,214,400 B.
  CHECK(exact.size() == 1 + 119);
  CHECK(exact[0].elements * 2 == first.value);
  const auto tensors = gradient_buckets(network, Bytes{2}, first, rest, true);
  CHECK(tensors.size() < exact.size());
  for (std::size_t b = 1; b + 1 < tensors.size(); ++b) CHECK(tensors[b].elements * 2 >= rest.value);
}

TEST_CASE("a rank's schedule is static, lazy and names only its neighbours", "[data-parallel]") {
  const Network network = mlp_network({{10, 20, 5}}, 4, Precision::fp32);
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(network), 8);
  all_reduce_by(plan, "ring");
  plan.stages.front().buckets = gradient_buckets(network, Bytes{4}, Bytes{1e9}, Bytes{1e9}, true);
  Names names;
  const TrainingPrograms programs(plan, names);
  const auto program = programs.program(3);
  CHECK(std::vector<Actor>(program->slots().begin(), program->slots().end()) == std::vector<Actor>{4, 2});
  CHECK_FALSE(program->dynamic());
  int messages = 0;
  OpReader reader(*program);
  for (Op op; reader.next(op) == Pull::op;) messages += op.kind == Kind::send || op.kind == Kind::recv ? 1 : 0;
  CHECK(messages == 2 * 2 * 7);
}

}  // namespace strategies_test_data_parallel
