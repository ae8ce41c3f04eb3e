#include "replica_replay.hpp"

#include <deque>

#include "strategies/values/gossip_mixing.hpp"

namespace trainyard::test {
namespace {

using Eigen::VectorXd;

struct ReplicaReplay {
  const TrainingTask& task;
  const ReplicaUpdates& updates;
  int ranks, micro_batches, steps;
  PlainNetwork network;

  /// Returns the gradient of a rank's share of a batch, summed micro-batch by micro-batch.
  VectorXd gradient(const VectorXd& parameters, int step, int rank) {
    const Eigen::Index share = Eigen::Index{micro_batches} * task.micro_batch_size;
    VectorXd sum = VectorXd::Zero(parameters.size());
    for (int m = 0; m < micro_batches; ++m)
      sum += network.gradient(parameters, (step * ranks + rank) * share + m * task.micro_batch_size,
                              static_cast<double>(updates.alone() ? share : share * ranks));
    return sum;
  }

  void update(VectorXd& parameters, VectorXd& velocity, const VectorXd& step_gradient) const {
    velocity = task.rule.momentum * velocity + step_gradient;
    parameters -= task.rule.learning_rate * velocity;
  }

  std::vector<VectorXd> train_delayed() {
    VectorXd parameters = network.initial(), velocity = VectorXd::Zero(parameters.size());
    std::deque<VectorXd> pending_sums;
    const auto apply = [&] {
      update(parameters, velocity, pending_sums.front());
      pending_sums.pop_front();
    };
    for (int step = 0; step < steps; ++step) {
      if (step > updates.delay) apply();
      VectorXd& sum = pending_sums.emplace_back(gradient(parameters, step, 0));
      for (int rank = 1; rank < ranks; ++rank) sum += gradient(parameters, step, rank);
    }
    while (!pending_sums.empty()) apply();
    return std::vector<VectorXd>(static_cast<std::size_t>(ranks), parameters);
  }

  /// Averages replicas that have updated alone.
  void average(std::vector<VectorXd>& replicas, int step) const {
    const std::vector<VectorXd> before = replicas;
    if (updates.local_steps > 0 && ((step + 1) % updates.local_steps == 0 || step + 1 == steps)) {
      VectorXd sum = before.front();
      for (std::size_t rank = 1; rank < before.size(); ++rank) sum += before[rank];
      for (VectorXd& replica : replicas) replica = sum / static_cast<double>(replicas.size());
    }
    for (int rank = 0; updates.gossip && rank < ranks; ++rank) {
      std::vector<VectorXd> neighbour_parameters;
      for (const int neighbour : updates.gossip->neighbours(rank, step))
        neighbour_parameters.push_back(before[static_cast<std::size_t>(neighbour)]);
      const auto r = static_cast<std::size_t>(rank);
      replicas[r] = mix_parameters(*updates.gossip, rank, step, before[r], neighbour_parameters);
    }
  }

  std::vector<VectorXd> train_alone() {
    std::vector<VectorXd> replicas(static_cast<std::size_t>(ranks), network.initial());
    std::vector<VectorXd> velocity(replicas.size(), VectorXd::Zero(network.initial().size()));
    for (int step = 0; step < steps; ++step) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        update(replicas[r], velocity[r], gradient(replicas[r], step, rank));
      }
      average(replicas, step);
    }
    return replicas;
  }
};

}  // namespace

std::shared_ptr<const UpdatePolicy> ReplicaUpdates::policy() const {
  if (delay > 0) return delayed_updates(delay);
  if (local_steps > 0) return local_sgd(local_steps);
  return gossip ? gossip_updates(gossip) : nullptr;
}

std::vector<VectorXd> replay_replicas(const TrainingTask& task, const ReplicaUpdates& updates, int ranks,
                                      int micro_batches, int steps) {
  ReplicaReplay replay{task, updates, ranks, micro_batches, steps, PlainNetwork(task)};
  return updates.alone() ? replay.train_alone() : replay.train_delayed();
}

}  // namespace trainyard::test
