#include "strategies/plan/update_policy.hpp"

namespace trainyard {

const UpdatePolicy& update_policy_of(const TrainingPlan& plan) {
  static const UpdatePolicy all_reduce;
  return plan.updates ? *plan.updates : all_reduce;
}

}  // namespace trainyard
