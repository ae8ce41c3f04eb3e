#pragma once
#include <memory>
#include <vector>

#include "strategies/mechanisms/replicas/replicas.hpp"
#include "tests/seeds/plain_training.hpp"

namespace trainyard::test {

/// The mechanism by which replicas go on without the newest gradients of the others. At most one member is set.
struct ReplicaUpdates {
  /// Number of steps by which updates are delayed; 0: the update of a step is applied before the next step.
  int delay = 0;
  int local_steps = 0;  ///< replicas update alone and average their parameters after this many steps; 0: never
  std::shared_ptr<const Gossip> gossip =
      {};  ///< replicas update alone and average with their neighbours after every step

  bool alone() const { return local_steps > 0 || gossip; }
  /// Returns the policy of a plan with these updates.
  std::shared_ptr<const UpdatePolicy> policy() const;
};

/// Trains without a schedule, and returns the parameters of each rank, which the programs must reproduce bit for bit.
/// Sums are in the order of the ranks. With delayed updates all replicas are equal.
std::vector<Eigen::VectorXd> replay_replicas(const TrainingTask&, const ReplicaUpdates&, int ranks, int micro_batches,
                                             int steps);

}  // namespace trainyard::test
