#pragma once
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/plan/gossip_graph.hpp"
#include "strategies/plan/update_policy.hpp"

namespace trainyard {

/// Base class of mechanisms for unsplit models whose replicas continue without the newest gradients of all others.
class WholeReplicas : public Mechanism {
 public:
  /// `key`: the key of plan.data_parallel that chooses the mechanism; errors name it.
  explicit WholeReplicas(const char* key) : key_(key) {}
  void read_setting(Fields& data_parallel, const MechanismSetting& setting) override {
    if (setting.splits_model)
      data_parallel.refuse(key_,
                           "each replica must hold the whole model: no tensor, pipeline, context or expert "
                           "parallelism, no ZeRO and no recomputation; these need mechanism all-reduce");
    if (setting.mesh.ranks() == 1) data_parallel.refuse(key_, "there is one rank only, and nobody to exchange with");
  }

 private:
  const char* key_;
};

// Update policies for plans that are made without a mechanism.
std::shared_ptr<const UpdatePolicy> delayed_updates(int delay);
std::shared_ptr<const UpdatePolicy> local_sgd(int period);
std::shared_ptr<const UpdatePolicy> gossip_updates(std::shared_ptr<const Gossip>);

}  // namespace trainyard
