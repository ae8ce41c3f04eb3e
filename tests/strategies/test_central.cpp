// Gradients that meet in one place: a master GPU, a CPU.
#include "strategies/mechanisms/central/central_values.hpp"
#include "strategies/step/pass_table.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/star_cluster.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

struct Setting {
  bool master = true;  ///< false: the parameters are a CPU's
  int replicas = 2, micro_batches = 1, steps = 3;
  bool loss_on_master = true, overlap = true, whole_tensors = true;
  Bytes bucket{40};
};

/// [largest difference to the single device, updates of the center, hazards]
json train(const Setting& s) {
  return simulate_in_child([&s] {
    constexpr int kBatch = 840;  // divisible by all that is tried
    const TrainingTask task = small_task(kBatch / s.replicas / s.micro_batches, kBatch * s.steps);
    const Network network = network_of(task);
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
    const CentralWords words(names);
    Values values;
    TrainingValues training(task, plan.step, values);
    add_central_values(training, plan);
    Simulation simulation(machine);
    for (const Actor actor : plan.actors()) simulation.add(actor, program(actor, plan, tables, words));
    simulation.observe(values);
    simulation.run();
    const numeric::RankParameters& learned = training.parameters(plan.center);
    return json{largest_difference(train_plainly(task, kBatch, s.steps), learned.all_parameters()), learned.updates(),
                values.hazards(), training.learner() == plan.center};
  });
}

void check_equal(const Setting& s) {
  CAPTURE(s.master, s.replicas, s.micro_batches, s.loss_on_master, s.overlap, s.bucket.value);
  const json r = train(s);
  CHECK(r[0].get<double>() <= 1e-12);
  CHECK(r[1] == s.steps);
  CHECK(r[2].empty());
  CHECK(r[3] == true);
}

}  // namespace

TEST_CASE("a network trained by a master GPU or a CPU equals a single device's", "[central]") {
  for (const bool master : {true, false})
    for (const int replicas : {1, 2, 3, 7})
      for (const int micro_batches : {1, 4}) check_equal({master, replicas, micro_batches});
}

TEST_CASE("so it does with other buckets, without overlap, and with losses of the replicas", "[central]") {
  check_equal({true, 4, 2, 3, false});
  check_equal({true, 4, 1, 2, true, false, false, Bytes{52}});
  for (const bool overlap : {false, true})
    for (const bool whole : {false, true})
      for (const double bucket : {4.0, 60.0, 1e6}) check_equal({false, 5, 2, 2, true, overlap, whole, Bytes{bucket}});
}
