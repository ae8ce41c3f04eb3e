// DPSET-01, OVL-01, BATCH-01, STRAG-01: data-parallel steps.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/executor/simulation.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/breakdown.hpp"
#include "sim/process/parallel.hpp"
#include "strategies/values/training_values.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/seeds/simple_training.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

SeedFigures dpset_01(const Node& inputs) {
  const int nodes = static_cast<int>(number_of(inputs, "nodes")),
            batches_each = static_cast<int>(number_of(inputs, "batches_per_node"));
  TrainingTask task;
  const MlpShape shape{{4, 6, 2}};
  task.model = shape;
  task.micro_batch_size = 8;  // a batch
  const Network network = mlp_network(shape, task.micro_batch_size, Precision::fp32);
  TrainingPlan plan = simple_plan(network, nodes, "ring", true);
  plan.steps = batches_each;
  plan.values = true;
  ClusterMachine machine(star_cluster(nodes, BytesPerSecond{1e9}), SoftwareStack{});
  Names names;
  const TrainingPrograms programs(plan, names);
  Values values;
  TrainingValues training(task, plan, values);
  Simulation simulation(machine);
  simulation.add(programs.programs());
  simulation.observe(values);
  simulation.run();
  const Eigen::VectorXd learned = training.parameters(0).all_parameters();
  int batches = 0;
  bool identical = true;
  for (int rank = 0; rank < nodes; ++rank) {
    batches += training.parameters(rank).updates();
    identical &= training.parameters(rank).all_parameters() == learned;
  }
  const int rounds = training.parameters(0).updates();
  return {{"total_batches", batches},
          {"sync_rounds", rounds},
          {"effective_batches_per_round", batches / rounds},
          {"replicas_identical", identical},
          {"equals_single_device",
           largest_difference(learned, train_plainly(task, nodes * task.micro_batch_size, batches_each)) <= 1e-12}};
}

/// Two ranks all-reduce S bytes by a ring in S/B: they exchange half of the bytes, twice.
constexpr int kPair = 2;
constexpr BytesPerSecond kLinkRate{1e9};

SeedFigures ovl_01(const Node& inputs) {
  const int layers = static_cast<int>(number_of(inputs, "layers"));
  const Bytes gradient = kLinkRate * Seconds{number_of(inputs, "comm_ms_each") * 1e-3};
  const Network network =
      simple_layers(layers, gradient.value / 4, milliseconds(number_of(inputs, "backward_ms_each")));
  const StepTimes separate = data_parallel_time(simple_plan(network, kPair, "ring", false), kLinkRate);
  const StepTimes overlapped = data_parallel_time(simple_plan(network, kPair, "ring", true), kLinkRate);
  return {{"no_overlap_ms", separate.total * 1e3},
          {"overlap_ms", overlapped.total * 1e3},
          {"exposed_ms", overlapped.exposed * 1e3}};
}

SeedFigures batch_01(const Node& inputs) {
  const Bytes gradient = kLinkRate * Seconds{number_of(inputs, "comm_ms") * 1e-3};
  SeedFigures got;
  for (const double batch : numbers_of(inputs, "batch")) {
    const Network network =
        simple_layers(1, gradient.value / 4, milliseconds(number_of(inputs, "compute_ms_per_sample") * batch));
    const StepTimes t = data_parallel_time(simple_plan(network, kPair, "ring", false), kLinkRate);
    got[fmt::format("comm_share {}", batch)] = t.exposed / t.total;
  }
  return got;
}

SeedFigures strag_01(const Node& inputs) {
  const double low = number_of(inputs, "low_ms"), high = number_of(inputs, "high_ms");
  const int steps = static_cast<int>(number_of(inputs, "steps"));
  const std::vector<double> counts = numbers_of(inputs, "n");
  const Network network = simple_layers(1, 1, milliseconds((low + high) / 2));
  Straggler jitter;
  jitter.kind = StragglerKind::uniform;
  jitter.spread = (high - low) / (high + low);
  SeedFigures got;
  const std::vector<std::string> times = all_in_parallel(counts.size(), processors(), [&](std::size_t i) {
    const int n = static_cast<int>(counts[i]);
    TrainingPlan plan = simple_plan(network, n, "binary-tree", false);
    plan.steps = steps;
    send_nothing(plan);
    Names names;
    ClusterMachine cluster(star_cluster(n, kLinkRate), SoftwareStack{});
    StragglerMachine machine(cluster, {jitter}, n);
    Simulation simulation(machine);
    const TrainingPrograms programs(plan, names);
    simulation.add(programs.programs());
    return json(simulation.run().end.value).dump();
  });
  for (std::size_t i = 0; i < counts.size(); ++i)
    got[fmt::format("expected_step_ms {}", counts[i])] = parse_json(times[i]).get<double>() / steps * 1e3;
  // A worker that waits for no other takes its own mean time.
  const TrainingPlan single_worker = [&] {
    TrainingPlan plan = simple_plan(network, 1, "ring", false);
    plan.steps = steps;
    return plan;
  }();
  Names names;
  ClusterMachine cluster(star_cluster(2, kLinkRate), SoftwareStack{});
  StragglerMachine machine(cluster, {jitter}, 2);
  Breakdown breakdown(names);
  Simulation simulation(machine);
  // Two independent workers: neither waits for the slower one.
  const TrainingPrograms programs(single_worker, names);
  for (int rank = 0; rank < 2; ++rank) simulation.add(rank, programs.program(0));
  simulation.observe(breakdown);
  simulation.run();
  got["async_mean_ms"] = (breakdown.parts(0).total.value + breakdown.parts(1).total.value) / 2 / steps * 1e3;
  return got;
}

const RegisterSeed training_seeds[] = {
    {"DPSET-01", dpset_01}, {"OVL-01", ovl_01}, {"BATCH-01", batch_01}, {"STRAG-01", strag_01}};

}  // namespace
}  // namespace trainyard
