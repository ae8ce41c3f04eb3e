// DELAY-01, LSGD-01, ASYNC-03, GOSSIP-01: delayed updates, local SGD and gossip.
#include <fmt/format.h>

#include <algorithm>

#include <Eigen/Eigenvalues>

#include "scenarios/src/running/steady_state.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/observers/traffic.hpp"
#include "sim/observers/values.hpp"
#include "strategies/mechanisms/replicas/replicas.hpp"
#include "strategies/step/training_programs.hpp"
#include "strategies/values/gossip_mixing.hpp"
#include "strategies/values/learning/tasks.hpp"
#include "strategies/values/training_values.hpp"
#include "tests/seeds/simple_training.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

constexpr BytesPerSecond kLink{1e9};

Network one_layer(double compute_ms, double elements) { return simple_layers(1, elements, milliseconds(compute_ms)); }

using Policy = std::shared_ptr<const UpdatePolicy>;

TrainingPlan plan_of(const Network& network, int ranks, const Policy& updates) {
  // Two ranks exchange their gradients in one step: one occupancy of the link and one latency.
  TrainingPlan plan = simple_plan(network, ranks, "recursive-doubling", false);
  if (network.layers.front().parameters.front().elements < 1) send_nothing(plan);  // messages take only the latency
  plan.updates = updates;
  return plan;
}

/// Returns the time in ms of a step of two ranks in the steady state, on links with this latency.
double steady_step(const Network& network, const Policy& updates, double latency_ms, int steps) {
  constexpr int warm = 240;  // steps; a multiple of the rounds of every delay
  TrainingPlan plan = plan_of(network, 2, updates);
  plan.steps = warm + steps;
  plan.marks_steps = true;
  ClusterSpec star = star_cluster(2, kLink, to_picoseconds(Seconds{latency_ms * 1e-3}));
  star.node.pcie_latency = star.node.nvlink_latency;  // PCIe must not be a shorter path
  ClusterMachine machine(star, SoftwareStack{});
  Names names;
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  Breakdown breakdown(names);
  SteadyWindow window(breakdown, names.intern(kStepOver), warm, steps);
  Simulation simulation(machine);
  for (int rank = 0; rank < 2; ++rank) simulation.add(rank, training_program(rank, plan, tables, streams));
  simulation.observe(breakdown);
  simulation.observe(window);
  simulation.run();
  return (window.end(0) - window.begin(0)).value / steps * 1e3;
}

SeedFigures delay_01(const Node& inputs) {
  const double compute = number_of(inputs, "compute_ms");
  const auto measure = [&](double occupancy, double latency, int delay) {
    return steady_step(one_layer(compute, std::max(0.5, occupancy * 1e-3 * kLink.value / 4)),
                       delay > 0 ? delayed_updates(delay) : nullptr, latency, 120);
  };
  SeedFigures got;
  for (const double delay : numbers_of(inputs, "delays")) {
    const int d = static_cast<int>(delay);
    for (const double b : numbers_of(inputs, "occupancy_ms"))
      got[fmt::format("bandwidth_only_L0 d{} {}", d, b)] = measure(b, 0, d);
    for (const double l : numbers_of(inputs, "latency_ms"))
      got[fmt::format("latency_only_b0 d{} {}", d, l)] = measure(0, l, d);
  }
  for (const int d : {0, 1, 2, 3})
    got[fmt::format("mixed d{}", d)] =
        measure(number_of(inputs, "mixed_occupancy_ms"), number_of(inputs, "mixed_latency_ms"), d);
  return got;
}

SeedFigures lsgd_01(const Node& inputs) {
  SeedFigures got;
  const Network network =
      one_layer(number_of(inputs, "compute_ms"), number_of(inputs, "comm_ms") * 1e-3 * kLink.value / 4);
  for (const double h : numbers_of(inputs, "H")) {
    const int period = static_cast<int>(h);
    got[fmt::format("avg_step_ms {}", h)] = steady_step(network, local_sgd(period), 0, 10 * period);
  }
  return got;
}

/// Lets replicas of one number descend (x² − 1)², each alone for `steps` steps from its own beginning, then take the
/// mean. Returns their numbers before and after the mean.
std::vector<std::vector<double>> descend_alone(const std::vector<double>& begin, int steps) {
  const Network network = one_layer(1, 1);
  TrainingPlan plan = plan_of(network, static_cast<int>(begin.size()), local_sgd(steps));
  plan.steps = steps;
  plan.values = plan.rides = true;
  LearningSetup setup;
  setup.task = double_well(1, 0, 1);
  setup.rule.learning_rate = 0.125;
  setup.rule.momentum = 0;
  for (const double x : begin) setup.start.push_back(Eigen::VectorXd::Constant(1, x));
  ClusterMachine machine(star_cluster(plan.ranks(), kLink), SoftwareStack{});
  Names names;
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  Values values;
  TrainingValues training(setup, plan, values);
  const auto numbers = [&] {
    std::vector<double> x;
    for (Actor rank = 0; rank < plan.ranks(); ++rank) x.push_back(training.replica(rank).all_parameters()[0]);
    return x;
  };
  std::vector<double> before;
  training.watch([&](const LearningEvent& event) {
    if (event.kind == LearningEvent::Kind::update) before = numbers();
  });
  Simulation simulation(machine);
  for (int rank = 0; rank < plan.ranks(); ++rank) simulation.add(rank, training_program(rank, plan, tables, streams));
  simulation.observe(values);
  simulation.run();
  return {before, numbers()};
}

SeedFigures async_03(const Node& inputs) {
  const auto f = [](double x) { return (x * x - 1) * (x * x - 1); };
  const auto x = descend_alone(numbers_of(inputs, "begin"), static_cast<int>(number_of(inputs, "H")));
  const std::vector<double>&minima = x.at(0), &averaged = x.at(1);
  const double mean = averaged.at(0), distance = 1e-3;
  return {{"minima", fmt::format("{}", fmt::join(minima, " "))},
          {"f_at_minima", std::max(f(minima.at(0)), f(minima.at(1)))},
          {"average_x", mean},
          {"all_have_it", averaged == std::vector<double>(averaged.size(), mean)},
          {"f_at_average", f(mean)},
          {"is_local_max", f(mean) > f(mean - distance) && f(mean) > f(mean + distance)}};
}

/// The result of replicas of one number that only average: their numbers, and what they sent per step.
struct GossipResult {
  std::vector<double> x;
  double sent = 0;                // by the rank that sends most, in sizes of the model
  double received_elsewhere = 0;  // by actors that are no ranks, in bytes
};

GossipResult run_gossip(std::vector<double> x, const Gossip& gossip, int steps) {
  const int ranks = static_cast<int>(x.size());
  const Network network = one_layer(1, 1);
  TrainingPlan plan = plan_of(network, ranks, gossip_updates(std::make_shared<const Gossip>(gossip)));
  plan.steps = steps;
  plan.values = true;
  ClusterMachine machine(star_cluster(ranks, kLink), SoftwareStack{});
  Names names;
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  Values values;
  for (const TrainingCall call : {TrainingCall::forward, TrainingCall::backward, TrainingCall::update})
    values.on_call(static_cast<std::uint16_t>(call), [](Actor, const Op&) {});
  std::vector<int> rounds(x.size(), 0);
  values.on_call(static_cast<std::uint16_t>(TrainingCall::give_replica), [&](Actor rank, const Op&) {
    values.buffer(rank, number_of({TrainingBuffer::Kind::replica})) =
        Eigen::VectorXd::Constant(1, x[static_cast<std::size_t>(rank)]);
  });
  values.on_call(static_cast<std::uint16_t>(TrainingCall::mix_replicas), [&](Actor rank, const Op& op) {
    std::vector<Eigen::VectorXd> neighbours;
    for (std::uint16_t i = 0; i < op.effect.read.buffer; ++i)
      neighbours.push_back(values.buffer(rank, number_of({TrainingBuffer::Kind::replica, i + std::size_t{1}})));
    const auto r = static_cast<std::size_t>(rank);
    const Eigen::VectorXd& own = values.buffer(rank, number_of({TrainingBuffer::Kind::replica}));
    x[r] = mix_parameters(gossip, rank, rounds[r]++, own, neighbours)(0);
  });
  Traffic traffic(machine.links());
  Simulation simulation(machine);
  for (int rank = 0; rank < ranks; ++rank) simulation.add(rank, training_program(rank, plan, tables, streams));
  simulation.observe(values);
  simulation.observe(traffic);
  simulation.run();
  double others = traffic.total().value;
  for (int rank = 0; rank < ranks; ++rank) others -= traffic.received(rank).value;
  return {x, traffic.most_sent().value / steps / plan.parameter_element.value, others};
}

SeedFigures gossip_01(const Node& inputs) {
  const std::vector<double> x = numbers_of(inputs, "x");
  const Gossip ring = Gossip::ring(static_cast<int>(x.size()));
  const GossipResult once = run_gossip(x, ring, 1), often = run_gossip(x, ring, 10);
  SeedFigures got;
  double mean = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    got[fmt::format("after1 {}", i)] = once.x[i];
    mean += often.x[i] / static_cast<double>(x.size());
  }
  got["mean_preserved"] = mean;
  got["spectral_gap"] = spectral_gap(ring);
  got["second_largest_eigenvalue"] = 1 - spectral_gap(ring);
  for (const double n : numbers_of(inputs, "nodes"))
    got[fmt::format("tx_per_node_per_step_in_S {}", n)] =
        run_gossip(std::vector<double>(static_cast<std::size_t>(n), 1.0), Gossip::ring(static_cast<int>(n)), 3).sent;
  got["server_bytes"] = once.received_elsewhere;
  return got;
}

const RegisterSeed replica_seeds[] = {
    {"DELAY-01", delay_01}, {"LSGD-01", lsgd_01}, {"ASYNC-03", async_03}, {"GOSSIP-01", gossip_01}};

}  // namespace
}  // namespace trainyard
