#include "strategies/plan/update_policy.hpp"

namespace trainyard {

Registry<MakeUpdatePolicy>& update_policies() {
  static Registry<MakeUpdatePolicy> all("update policy");
  return all;
}

std::shared_ptr<const UpdatePolicy> make_update_policy(const ReplicaUpdates& updates) {
  return update_policies().find(updates.policy(), {})(updates);
}

const UpdatePolicy& update_policy_of(const TrainingPlan& plan) {
  static const std::shared_ptr<const UpdatePolicy> all_reduce = make_update_policy({});
  return plan.updates ? *plan.updates : *all_reduce;
}

}  // namespace trainyard
