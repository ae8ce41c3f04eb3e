#pragma once
#include <vector>

#include "sim/observers/values.hpp"
#include "strategies/step/data_parallel.hpp"
#include "strategies/values/mlp_replica.hpp"

namespace trainyard {

/// Carries out on real arrays what replicas do that go on with old gradients, alone for some steps, or with their
/// neighbours: every gradient is taken at the weights that its replica then has. Data as in NumericTask; replicas that
/// update alone learn from their own share of each batch. The optimizer has a momentum, which each replica keeps.
class ReplicaNumerics {
 public:
  ReplicaNumerics(const NumericTask&, const TrainingPlan&, const ReplicaUpdates&, double momentum);

  /// Registers the calls of the schedule; both must live until the run has ended.
  void attach(Values&);
  const Mlp& replica(int rank) const { return replicas_[static_cast<std::size_t>(rank)].mlp; }

 private:
  struct Replica : MlpReplica {
    explicit Replica(const NumericTask& task) : MlpReplica(task), velocity(gradients) {}
    std::vector<Eigen::VectorXd> velocity;  // by layer
    std::int64_t steps = 0;                 // begun
  };
  const NumericTask& task_;
  const TrainingPlan& plan_;
  const ReplicaUpdates& updates_;
  double momentum_;
  std::vector<Replica> replicas_;
  Values* values_ = nullptr;

  Replica& of(Actor rank) { return replicas_[static_cast<std::size_t>(rank)]; }
  const std::vector<GradientBucket>& buckets() const { return plan_.stages.front().buckets; }
  Samples samples(Actor rank, int micro_batch) const;
  double batch() const;
  void forward(Actor, int layer, int micro_batch);
  void update(Actor, std::size_t set);
  void mix(Actor);
};

/// The same trainings without any schedule: what the programs must reproduce bit for bit. Of delayed updates all replicas
/// are alike; sums are in the order of the ranks.
std::vector<Mlp> replay_replicas(const NumericTask&, const ReplicaUpdates&, int ranks, int micro_batches, int steps,
                                 double momentum);

}  // namespace trainyard
