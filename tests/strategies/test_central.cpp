// Mechanisms with a center that sums gradients: a master GPU or a CPU.
#include "strategies/mechanisms/central/central_mechanism.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/values/reference_training.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/strategies/numeric_tasks.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace strategies_test_central {

using namespace trainyard;
using namespace trainyard::test;

namespace {

struct Setting {
  bool master = true;  ///< false: a CPU holds the parameters
  int replicas = 2, micro_batches = 1, steps = 3;
  bool loss_on_master = true, overlap = true, whole_tensors = true;
  Bytes bucket{40};
};

/// Checks that the center learns what a single device learns.
void check_equal(const Setting& s, const TrainingTask& task, const Network& network, double tolerance) {
  CAPTURE(s.master, s.replicas, s.micro_batches, s.loss_on_master, s.overlap, s.bucket.value);
  TrainingPlan replicas = replica_plan(std::make_shared<const Network>(network), s.replicas, s.micro_batches);
  without_all_reduce(replicas);
  replicas.steps = s.steps;
  replicas.overlap_gradients = s.overlap;
  replicas.values = true;
  StagePlan& stage = replicas.stages.front();
  stage.buckets = gradient_buckets(network, replicas.gradient_element, s.bucket, s.bucket, s.whole_tensors);
  stage.optimizer.precision = static_cast<std::uint8_t>(Precision::fp32);
  CentralPlan plan = central_plan(std::move(replicas));
  plan.loss_on_master = s.loss_on_master;
  if (!s.master) plan.center = s.replicas;
  const auto program = s.master ? master_program : storage_program;
  ClusterMachine machine(star_cluster(s.replicas + 1, BytesPerSecond{1e6}, {1000000}), SoftwareStack{});
  Names names;
  const PassTables tables(plan.step, names);
  const CentralNames words(names);
  Values values;
  TrainingValues training(task, plan.step, values);
  add_central_values(training, plan);
  Simulation simulation(machine);
  for (const Actor actor : plan.actors()) simulation.add(actor, program(actor, plan, tables, words));
  simulation.observe(values);
  simulation.run();
  const numeric::RankParameters& learned = training.parameters(plan.center);
  ReferenceTraining reference(task, s.replicas * s.micro_batches * task.micro_batch_size, s.steps);
  reference.run();
  CHECK(largest_difference(reference.parameters().all_parameters(), learned.all_parameters()) <= tolerance);
  CHECK(learned.updates() == s.steps);
  CHECK(values.hazards().empty());
  CHECK(training.learner() == plan.center);
}

void check_equal(const Setting& s) {
  constexpr int kBatch = 840;  // divisible by all tested numbers of replicas and micro-batches
  const TrainingTask task = small_task(kBatch / s.replicas / s.micro_batches, kBatch * s.steps);
  check_equal(s, task, network_of(task), 1e-12);
}

}  // namespace

TEST_CASE("a network trained by a master GPU or a CPU equals a single device's", "[central]") {
  for (const bool master : {true, false})
    for (const int replicas : {1, 2, 3, 7})
      for (const int micro_batches : {1, 4}) check_equal({master, replicas, micro_batches});
}

TEST_CASE("a central training equals a single device's with other buckets, no overlap, losses of the replicas",
          "[central]") {
  check_equal({true, 4, 2, 3, false});
  check_equal({true, 4, 1, 2, true, false, false, Bytes{52}});
  for (const bool overlap : {false, true})
    for (const bool whole_tensors : {false, true})
      for (const double bucket : {4.0, 60.0, 1e6})
        check_equal({false, 5, 2, 2, true, overlap, whole_tensors, Bytes{bucket}});
}

TEST_CASE("a central training of a transformer with tied weights equals a single device's, moments included",
          "[central]") {
  for (const bool master : {true, false})
    for (const bool loss_on_master : {true, false}) {
      TrainingTask task = small_gpt2();
      task.rule.kind = UpdateRule::Kind::adam;
      task.rule.learning_rate = 1e-3;
      const Network network = transformer_network(std::get<TransformerConfig>(task.model), task.micro_batch_size,
                                                  task.seq_length, Precision::fp32);
      check_equal({master, 3, 2, 2, loss_on_master, true, true, Bytes{1000}}, task, network,
                  1e-10);  // Adam divides rounding errors by small gradients
    }
}

}  // namespace strategies_test_central
