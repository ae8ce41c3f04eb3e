#pragma once
#include <map>
#include <vector>

#include "sim/observers/values.hpp"
#include "strategies/mechanisms/central_plan.hpp"
#include "strategies/values/mlp_replica.hpp"

namespace trainyard {

/// Carries out on real arrays what the programs of a center and its replicas say: parameters that the center gave out,
/// outputs and gradients that came to it.
class CentralNumerics {
 public:
  CentralNumerics(const NumericTask&, const CentralPlan&);

  /// Registers the calls of the schedule; both must live until the run has ended.
  void attach(Values&);
  /// What an actor holds; of replicas, what they were given last.
  const Mlp& held_by(Actor actor) const { return holders_.at(actor).mlp; }
  int updates() const { return updates_; }  ///< of the center

 private:
  const NumericTask& task_;
  const CentralPlan& plan_;
  std::map<Actor, MlpReplica> holders_;
  Values* values_ = nullptr;
  int updates_ = 0;

  MlpReplica& of(Actor actor) { return holders_.at(actor); }
  const Network& network() const { return *plan_.step.network; }
  const std::vector<GradientBucket>& buckets() const { return plan_.step.stages.front().buckets; }
  Samples samples(Actor, int micro_batch) const;
  void backward(Actor, int layer, int micro_batch);
  void fill_output(Actor);
  void loss(Actor, int micro_batch);
  void fill_bucket(Actor, std::size_t bucket);
  void keep_gradients(Actor, std::size_t bucket);
  void update(Actor);
};

}  // namespace trainyard
