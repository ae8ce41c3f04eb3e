#pragma once
#include <memory>
#include <vector>

#include "strategies/mechanisms/replicas/replicas.hpp"
#include "tests/seeds/plain_training.hpp"

namespace trainyard::test {

/// How replicas of a whole model go on without the newest gradients of all others: one of these.
struct ReplicaUpdates {
  /// The update of a step is there before the step that many later than the next one begins; 0: before the next one.
  int delay = 0;
  int local_steps = 0;  ///< each replica updates alone; parameters are averaged every so many steps; 0: never
  std::shared_ptr<const Gossip> gossip;  ///< each updates alone, and averages with its neighbours after every step

  bool alone() const { return local_steps > 0 || gossip; }
  /// What a plan then has.
  std::shared_ptr<const UpdatePolicy> policy() const;
};

/// Such a training without any schedule: what the programs must reproduce bit for bit. Of delayed updates all replicas
/// are alike; sums are in the order of the ranks.
std::vector<Eigen::VectorXd> replay_replicas(const TrainingTask&, const ReplicaUpdates&, int ranks, int micro_batches,
                                             int steps);

}  // namespace trainyard::test
