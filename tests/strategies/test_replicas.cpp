// Replicas that do not agree in every step. Each computes its gradients at its own present weights.
#include <Eigen/Eigenvalues>
#include <cmath>

#include "strategies/step/training_programs.hpp"
#include "strategies/values/gossip_mixing.hpp"
#include "strategies/values/training_values.hpp"
#include "tests/all_reduce_by.hpp"
#include "tests/strategies/replica_replay.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace strategies_test_replicas {

using namespace trainyard;
using namespace trainyard::test;

namespace {

struct Setting {
  ReplicaUpdates updates;
  int ranks = 2, micro_batches = 1, steps = 7;
  bool overlap = true;
  std::string all_reduce = "gather-broadcast";  // adds in the order of the ranks, as the replay does
  Bytes bucket{40};
};

struct ReplicaDifferences {
  double to_replay = 0, between_replicas = 0;  ///< largest differences of a parameter
};

/// Trains, and checks that no operation reads a buffer too early.
ReplicaDifferences train(const Setting& s) {
  TrainingTask task = small_task(120 / s.ranks / s.micro_batches, 120 * s.steps);
  task.rule.momentum = 0.9;
  const Network network = network_of(task);
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(network), s.ranks, s.micro_batches);
  plan.steps = s.steps;
  plan.overlap_gradients = s.overlap;
  plan.values = true;
  plan.updates = s.updates.policy();
  all_reduce_by(plan, s.all_reduce);
  StagePlan& stage = plan.stages.front();
  stage.buckets = gradient_buckets(network, plan.gradient_element, s.bucket, s.bucket, true);
  stage.optimizer.precision = static_cast<std::uint8_t>(Precision::fp32);
  ClusterMachine machine(star_cluster(s.ranks, BytesPerSecond{1e6}, {1000000}), SoftwareStack{});
  Names names;
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  Values values;
  TrainingValues training(task, plan, values);
  Simulation simulation(machine);
  for (int rank = 0; rank < s.ranks; ++rank) simulation.add(rank, training_program(rank, plan, tables, streams));
  simulation.observe(values);
  simulation.run();
  const auto replay = replay_replicas(task, s.updates, s.ranks, s.micro_batches, s.steps);
  ReplicaDifferences largest;
  for (int rank = 0; rank < s.ranks; ++rank) {
    const Eigen::VectorXd replica = training.parameters(rank).all_parameters();
    largest.to_replay =
        std::max(largest.to_replay, largest_difference(replica, replay[static_cast<std::size_t>(rank)]));
    largest.between_replicas =
        std::max(largest.between_replicas, largest_difference(replica, training.parameters(0).all_parameters()));
  }
  CHECK(values.hazards().empty());
  return largest;
}

}  // namespace

TEST_CASE("delayed updates equal a plain replay bit for bit", "[replicas]") {
  for (const int delay : {0, 1, 2, 5, 9})
    for (const int ranks : {2, 3})
      for (const bool overlap : {true, false}) {
        CAPTURE(delay, ranks, overlap);
        const ReplicaDifferences largest = train({{.delay = delay}, ranks, 2, 7, overlap});
        CHECK(largest.to_replay == 0);
        CHECK(largest.between_replicas == 0);
      }
  CHECK(train({{.delay = 2}, 4, 1, 7, true, "ring"}).to_replay <= 1e-12);
}

TEST_CASE("local steps with momenta of their own equal a plain replay bit for bit", "[replicas]") {
  for (const int period : {1, 2, 3, 7})
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(period, ranks);
      const ReplicaDifferences largest = train({{.local_steps = period}, ranks, 2});
      CHECK(largest.to_replay == 0);
      CHECK(largest.between_replicas == 0);
    }
}

TEST_CASE("gossip equals a plain replay bit for bit", "[replicas]") {
  for (const Gossip& gossip : {Gossip::ring(2), Gossip::ring(5), Gossip::torus(6), Gossip::pairs(5, 3),
                               Gossip::of_edges(4, {{0, 1}, {1, 2}, {1, 3}})}) {
    CAPTURE(gossip.name(), gossip.ranks());
    const ReplicaUpdates updates{.gossip = std::make_shared<const Gossip>(gossip)};
    CHECK(train({updates, gossip.ranks(), 2}).to_replay == 0);
  }
}

TEST_CASE("gossip's weights are symmetric, and rows of them sum to 1", "[replicas]") {
  for (const Gossip& gossip : {Gossip::ring(7), Gossip::torus(12), Gossip::pairs(9, 1), Gossip::pairs(8, 2),
                               Gossip::of_edges(5, {{0, 1}, {0, 2}, {0, 3}, {3, 4}})})
    for (const int round : {0, 1, 100}) {
      const Eigen::MatrixXd w = mixing_matrix(gossip, round);
      CHECK((w - w.transpose()).cwiseAbs().maxCoeff() == 0);
      CHECK((w.rowwise().sum().array() - 1).abs().maxCoeff() < 1e-15);
      CHECK(w.minCoeff() >= 0);
    }
  // A ring's eigenvalues are (1 + 2 cos(2 pi k / n)) / 3.
  for (const int n : {4, 8, 17})
    CHECK(spectral_gap(Gossip::ring(n)) == Approx(1 - (1 + 2 * std::cos(2 * M_PI / n)) / 3).epsilon(1e-9));
  CHECK(spectral_gap(Gossip::torus(64)) > spectral_gap(Gossip::ring(64)));
  CHECK(Gossip::of_edges(4, {{0, 1}, {2, 3}}).cut_off() == std::vector<int>{2, 3});
  CHECK(Gossip::ring(9).cut_off().empty());
}

}  // namespace strategies_test_replicas
