#pragma once
#include <vector>

#include "sim/observers/values.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/plan/training_plan.hpp"
#include "strategies/values/mlp_replica.hpp"

namespace trainyard {

/// Carries out on real arrays what the data-parallel programs say: one replica of the network a rank, gradients in the
/// buckets that the schedule exchanges, sums of gradients applied as they arrived.
class NumericTraining {
 public:
  NumericTraining(const NumericTask&, const TrainingPlan&);

  /// Registers the calls of the schedule; both must live until the run has ended.
  void attach(Values&);

  const Mlp& replica(int rank) const { return replicas_[static_cast<std::size_t>(rank)].mlp; }
  int updates(int rank) const { return replicas_[static_cast<std::size_t>(rank)].updates; }
  /// All ranks hold the same weights, bit for bit.
  bool replicas_identical() const;

 private:
  struct Replica : MlpReplica {
    using MlpReplica::MlpReplica;
    int updates = 0;
  };
  const NumericTask& task_;
  const TrainingPlan& plan_;
  std::vector<Replica> replicas_;
  Values* values_ = nullptr;

  const std::vector<GradientBucket>& buckets() const { return plan_.stages.front().buckets; }
  Replica& of(Actor rank) { return replicas_[static_cast<std::size_t>(rank)]; }
  Samples samples(Actor rank, int micro_batch) const;
  void update(Actor);
};

}  // namespace trainyard
