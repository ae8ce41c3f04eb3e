#pragma once
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

/// Replicas of a whole model that go on without the newest gradients of all others.
class WholeReplicas : public Mechanism {
 public:
  /// `key`: of plan.data_parallel, that chooses the mechanism.
  explicit WholeReplicas(const char* key) : key_(key) {}
  void settle(Fields& data_parallel, const MechanismSetting&) override;

 private:
  const char* key_;
};

}  // namespace trainyard
